// The documentation as the service serves it: every page is there, and every link in it leads somewhere.

import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "./api-client.ts";

const files = readdirSync(join(import.meta.dir, "..", "..", "docs"));
const names = files.filter((name) => name.endsWith(".md")).map((name) => name.slice(0, -3));

const client = apiClient({ basic: null, bearer: { token: "a-token-that-nobody-sends" } });
/** As somebody without credentials gets it. */
const pageOf = (path: string) => client.call("GET", path);

test("every document is a page, which whoever reaches the service may read", async () => {
  const { headers, text } = await pageOf("/docs");
  expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(headers.get("content-security-policy")).toContain("default-src 'none'");
  for (const name of names) {
    expect(text).toContain(`<a href="/docs/${name}">`);
    expect((await pageOf(`/docs/${name}`)).status).toBe(200);
  }
});

test("every link leads to a heading, a page or a picture that is there", async () => {
  const pages = new Map<string, string>();
  for (const name of names) pages.set(`/docs/${name}`, (await pageOf(`/docs/${name}`)).text);
  const broken: string[] = [];
  for (const [page, text] of pages) {
    for (const [, address = ""] of text.matchAll(/(?:href|src)="([^"]*)"/g)) {
      const [path, anchor] = address.split("#");
      const there = path === "" ? page : (path ?? "");
      if (!there.startsWith("/docs")) continue;
      const isThere = pages.has(there) || (await pageOf(there)).status === 200;
      const hasAnchor = anchor === undefined || pages.get(there)?.includes(`id="${anchor}"`);
      if (!isThere || !hasAnchor) broken.push(`${page}: ${address}`);
    }
  }
  expect(broken).toEqual([]);
});

test("what is not there is 404, and another method 405", async () => {
  expect((await apiClient().call("POST", "/docs/connectors")).status).toBe(405);
  expect((await pageOf("/docs/nothing")).status).toBe(404);
  expect((await pageOf("/docs/../package.json")).status).not.toBe(200);
  expect((await pageOf("/docs/%2e%2e%2fpackage.json")).status).toBe(404);
});
