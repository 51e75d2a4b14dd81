// Receivers that answer nothing keep nobody else waiting, however many they are.

import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

test("a request goes out beside 400 that nobody answers, in a process that began again under its id", async () => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  using answering = Bun.serve({ port: 0, fetch: () => new Response("ok") });
  const directory = await mkdtemp(join(tmpdir(), "millrace-limit-"));
  const script = join(directory, "many.ts");
  const module = JSON.stringify(join(import.meta.dirname, "../src/request-limit.ts"));
  await writeFile(
    script,
    `const { raiseRequestLimit } = await import(${module});
     raiseRequestLimit();
     const signal = AbortSignal.timeout(20_000);
     for (let i = 0; i < 400; i++) fetch("http://127.0.0.1:${port}/", { signal }).catch(() => {});
     const response = await fetch(${JSON.stringify(answering.url)}, { signal });
     console.log(process.pid, process.argv.slice(2).join(), response.status);
     process.exit();`,
  );
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, ...env } = process.env;
  const child = Bun.spawn([process.execPath, script, "a b", "c"], { env, stdout: "pipe" });
  expect((await new Response(child.stdout).text()).trim()).toBe(`${child.pid} a b,c 200`);
  for (const socket of sockets) socket.destroy();
  silent.close();
  await rm(directory, { recursive: true });
}, 30_000);
