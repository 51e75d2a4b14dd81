// The console's page and assets, as browsers and others get them.

import { describe, expect, test } from "bun:test";
import { Elysia } from "elysia";
import type { ConsoleAssets } from "../../../src/api/console/bundle-console.ts";
import { consoleRoutes } from "../../../src/api/console/console-routes.ts";
import { errorHandling, type Fault } from "../../../src/api/error-handling.ts";
import { apiClient } from "../api-client.ts";

const chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const guarded = apiClient({ basic: { username: "u", password: "p" }, bearer: { token: "t" } });
const get = (path: string, headers: Record<string, string> = {}) =>
  guarded.call("GET", path, undefined, headers);

describe("the page", () => {
  test("is at the root for a browser, and at each path of the console for everyone, without credentials", async () => {
    const root = await get("/", { accept: chromium });
    expect([root.status, root.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    for (const path of [
      "/console",
      "/console/",
      "/console/connectors/orders/tables",
      "/console/%zz?a=1&a=2",
    ]) {
      expect(await get(path)).toMatchObject({ status: 200, text: root.text });
    }
    expect((await get("/?a=1&a=2", { accept: chromium })).text).toBe(root.text);
  });

  test("is whole, and loads only files that are there", async () => {
    const { text } = await get("/console");
    for (const part of [
      '<html lang="en">',
      '<meta name="viewport"',
      '<meta name="color-scheme" content="light dark">',
      "<title>millrace</title>",
      '<div id="console"></div>',
      "<noscript>",
      '<script type="module" src="/console/assets/app.js">',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).not.toMatch(/https?:|style=|<style|<script>/);
    const loaded = [...text.matchAll(/(?:src|href)="(\/console[^"]+)"/g)].map(([, link]) => link ?? "");
    expect(loaded).toHaveLength(3);
    for (const link of loaded) expect((await get(link)).status).toBe(200);
  });

  test("leaves the root to those who do not prefer it, behind the guards", async () => {
    for (const accept of ["*/*", "application/json", "text/html;q=0", "text/html;q=0.5, application/json"]) {
      expect((await get("/", { accept })).status).toBe(401);
      const about = await get("/", { accept, authorization: "Bearer t" });
      expect([about.status, about.headers.get("vary")]).toEqual([200, "accept"]);
      expect(about.body).toMatchObject({ name: "millrace", version: "0.0.0-test" });
    }
  });

  test.each([
    "/consoles",
    "/console.json",
    "//console/",
    "/api/v1/connectors",
    "/console/../snapshots",
    "/swagger",
  ])("is not at %s, which needs credentials", async (path) => {
    expect((await get(path, { accept: chromium })).status).toBe(401);
  });

  test("is behind the host guard", async () => {
    const here = apiClient(undefined, (host) => host === "localhost");
    for (const path of ["/", "/console", "/console/assets/app.js"]) {
      const headers = { accept: chromium, host: "attacker.example" };
      expect((await here.call("GET", path, undefined, headers)).status).toBe(401);
    }
  });
});

describe("assets", () => {
  test.each([
    ["app.js", "text/javascript; charset=utf-8"],
    ["app.css", "text/css; charset=utf-8"],
    ["icon.svg", "image/svg+xml"],
  ])("%s", async (name, mediaType) => {
    const asset = await get(`/console/assets/${name}`);
    expect([asset.status, asset.headers.get("content-type")]).toEqual([200, mediaType]);
  });

  test.each(["", "app.js/", "app.js.map", "APP.JS", "app%2ejs", "constructor"])(
    "there is no %j",
    async (name) => {
      expect(await get(`/console/assets/${name}`)).toMatchObject({
        status: 404,
        body: { code: "not_found" },
      });
    },
  );
});

const policy = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join("; ");

test.each(["/console", "/console/assets/app.js", "/console/assets/icon.svg"])(
  "%s says what a browser may do with it, and asks it to ask again",
  async (path) => {
    const answer = await get(path);
    expect(answer.headers.toJSON()).toMatchObject({
      "content-security-policy": policy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cache-control": "no-cache",
      etag: expect.stringMatching(/^"[\w-]{22}"$/),
    });
    expect(answer.headers.get("vary")).toContain("accept-encoding");
  },
);

describe("what the client has already", () => {
  const path = "/console/assets/app.js";

  test("is not sent again", async () => {
    const tag = (await get(path)).headers.get("etag") ?? "";
    for (const known of [tag, `W/${tag}`, `"other", ${tag}`, "*"]) {
      const answer = await get(path, { "if-none-match": known });
      expect([answer.status, answer.text, answer.headers.get("etag")]).toEqual([304, "", tag]);
      expect(answer.headers.get("content-security-policy")).toBe(policy);
    }
    for (const known of ['"other"', "", tag.slice(1, -1)]) {
      expect((await get(path, { "if-none-match": known })).status).toBe(200);
    }
  });

  test("compressed and plain have tags of their own", async () => {
    const plain = (await get(path)).headers.get("etag") ?? "";
    const compressed = await get(path, { "accept-encoding": "gzip", "if-none-match": plain });
    expect(compressed.status).toBe(200);
    expect(compressed.headers.get("etag")).not.toBe(plain);
  });
});

describe("over the wire", () => {
  const assets: ConsoleAssets = {
    "app.js": new TextEncoder().encode("let a = 1;\n".repeat(1_000)),
    "app.css": new Uint8Array(),
    "icon.svg": new TextEncoder().encode("<svg/>"),
  };
  const app = new Elysia({ normalize: false })
    .use(consoleRoutes(async () => assets))
    .get("/", () => "routed");

  async function listening<Result>(use: (url: string) => Promise<Result>): Promise<Result> {
    app.listen({ port: 0, hostname: "127.0.0.1" });
    try {
      return await use(`http://127.0.0.1:${app.server?.port}`);
    } finally {
      await app.stop(true);
    }
  }

  test("compressed only for those who take that", () =>
    listening(async (url) => {
      const sizes: Record<string, number> = {};
      for (const encoding of ["gzip, deflate, br, zstd", "br", "gzip;q=0", "identity"]) {
        const answer = await fetch(`${url}/console/assets/app.js`, {
          headers: { "accept-encoding": encoding },
          decompress: false,
        });
        const bytes = await answer.bytes();
        expect(answer.headers.get("content-length")).toBe(String(bytes.length));
        const isCompressed = answer.headers.get("content-encoding") === "gzip";
        expect(isCompressed ? Bun.gunzipSync(new Uint8Array(bytes)) : bytes).toEqual(assets["app.js"]);
        sizes[encoding] = bytes.length;
      }
      expect(sizes).toEqual({
        "gzip, deflate, br, zstd": expect.any(Number),
        br: 11_000,
        "gzip;q=0": 11_000,
        identity: 11_000,
      });
      expect(sizes["gzip, deflate, br, zstd"]).toBeLessThan(200);
    }));

  test("HEAD answers like GET, without a body", () =>
    listening(async (url) => {
      for (const path of ["/console", "/console/assets/app.js", "/console/assets/app.css"]) {
        const headers = { "accept-encoding": "identity" };
        const [head, whole] = await Promise.all([
          fetch(url + path, { method: "HEAD", headers }),
          fetch(url + path, { headers }),
        ]);
        expect(await head.text()).toBe("");
        const told = ({
          headers: { etag, "content-length": length },
        }: {
          headers: Record<string, string>;
        }) => [etag, length];
        expect(told({ headers: head.headers.toJSON() })).toEqual(told({ headers: whole.headers.toJSON() }));
      }
    }));

  test("other methods and paths are left to the routes", () =>
    listening(async (url) => {
      expect(await (await fetch(url)).text()).toBe("routed");
      for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
        expect((await fetch(`${url}/console`, { method })).status).toBe(404);
      }
    }));
});

test("another method is 405, with the methods that there are", async () => {
  const answer = await apiClient().call("POST", "/console/connectors/orders");
  expect(answer).toMatchObject({ status: 405, body: { code: "method_not_allowed" } });
  expect(answer.headers.get("allow")).toBe("GET, HEAD");
});

test("the assets are read once, and again after that has failed", async () => {
  let reads = 0;
  const faults: unknown[] = [];
  const reportFault = ({ error }: Fault) => `fault-${faults.push(error)}`;
  const app = new Elysia().use(errorHandling(reportFault, () => [])).use(
    consoleRoutes(async () => {
      reads++;
      if (reads === 1) throw new Error("main.tsx does not compile");
      return { "app.js": new Uint8Array(), "app.css": new Uint8Array(), "icon.svg": new Uint8Array() };
    }),
  );
  const status = async () => (await app.handle(new Request("http://localhost/console"))).status;
  expect([await status(), faults.map(String)]).toEqual([500, ["Error: main.tsx does not compile"]]);
  expect(await Promise.all([status(), status()])).toEqual([200, 200]);
  expect(await status()).toBe(200);
  expect(reads).toBe(2);
});
