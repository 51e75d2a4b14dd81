// The console in the compiled program: page and assets come from the binary itself, wherever it lies.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { bundleConsole } from "../../src/api/console/bundle-console.ts";
import { consolePage } from "../../src/api/console/console-page.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";

const root = resolve(import.meta.dirname, "..", "..");
let directory: string;
let binary: string;
let service: ServiceProcess;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-console-"));
  // No file of the build is beside it.
  binary = join(directory, "millrace");
  await cp(await compiledBinary(), binary);
  service = await ServiceProcess.start({
    command: [binary],
    environment: { MILLRACE_API_TOKEN: "full", MILLRACE_READ_TOKEN: "read" },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
}, 120_000);

afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

test("the page, and the assets as the sources make them", async () => {
  const page = await fetch(service.url, { headers: { accept: "text/html" } });
  expect([page.status, await page.text()]).toEqual([200, consolePage]);
  const { assets } = await bundleConsole(join(root, "console"));
  for (const [name, bytes] of Object.entries(assets)) {
    for (const encoding of ["gzip", "identity"]) {
      const answer = await fetch(`${service.url}/console/assets/${name}`, {
        headers: { "accept-encoding": encoding },
      });
      expect(answer.headers.get("content-encoding")).toBe(encoding === "gzip" ? "gzip" : null);
      expect(await answer.text()).toBe(new TextDecoder().decode(bytes));
    }
  }
});

test("the binary holds no path of the machine that it was built on", async () => {
  expect((await readFile(binary)).includes(root)).toBe(false);
});

test("a token that may only read reads, and makes no key pair", async () => {
  const headers = { authorization: "Bearer read" };
  const session = await fetch(`${service.url}/api/v1/session`, { headers });
  expect(await session.json()).toEqual({ access: "Read" });
  expect((await fetch(`${service.url}/api/v1/ssh-keys`, { method: "POST", headers })).status).toBe(403);
});
