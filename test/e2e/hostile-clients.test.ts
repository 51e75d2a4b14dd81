// Clients of the compiled program that send too slowly, too much, or what is no text: the others do not notice.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { MemoryWatch } from "../support/program/process-memory.ts";

let service: ServiceProcess;
let directory: string;
let memory: MemoryWatch;

beforeAll(async () => {
  const binary = await compiledBinary();
  directory = await mkdtemp(join(tmpdir(), "millrace-hostile-"));
  service = await ServiceProcess.start({
    command: [binary],
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
  memory = new MemoryWatch(service.pid!);
}, 120_000);

afterAll(async () => {
  memory[Symbol.dispose]();
  await service[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function post(body: string | Uint8Array | ReadableStream): Promise<{ status: number; code: string }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${service.url}/api/v1/connectors`, { method: "POST", headers, body });
  const { code } = (await response.json()) as { code: string };
  return { status: response.status, code };
}

/** In milliseconds, for a request that is answered. */
async function answerTime(): Promise<number> {
  const began = performance.now();
  const response = await fetch(`${service.url}/api/v1/connectors`);
  expect(await response.json()).toEqual({ connectors: [] });
  return performance.now() - began;
}

test("a thousand requests that never come to their end", async () => {
  const head = "POST /api/v1/connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  const slow = [
    { beginning: head, more: "X-More: x\r\n" },
    { beginning: `${head}Content-Length: 900000\r\n\r\n{`, more: " " },
    { beginning: `${head}Transfer-Encoding: chunked\r\n\r\n`, more: "1\r\n \r\n" },
  ];
  let answers = 0;
  const opened = Array.from({ length: 1_000 }, async (_, index) => {
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: service.port,
      socket: {
        data: () => {
          answers++;
        },
      },
    });
    socket.write(slow[index % slow.length]!.beginning);
    return socket;
  });
  const sockets = await Promise.all(opened);
  for (let round = 0; round < 20; round++) {
    for (const [index, socket] of sockets.entries()) socket.write(slow[index % slow.length]!.more);
    expect(await answerTime()).toBeLessThan(2_000);
    await Bun.sleep(50);
  }
  expect(answers).toBe(0);
  for (const socket of sockets) socket.end();
});

test("bodies of 10 MB, of a known length and of none", async () => {
  const piece = new Uint8Array(100_000).fill(32);
  const streamed = () =>
    new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < 100; sent++) controller.enqueue(piece);
        controller.close();
      },
    });
  const whole = " ".repeat(10_000_000);
  const bodies = Array.from({ length: 40 }, (_, index) => (index % 2 ? whole : streamed()));
  const answers = await Promise.all(bodies.map(post));
  expect(new Set(answers.map(({ status, code }) => `${status} ${code}`))).toEqual(
    new Set(["413 body_too_large"]),
  );
  expect(await answerTime()).toBeLessThan(2_000);
});

test("bytes that are no UTF-8", async () => {
  const texts = [
    '{"id":"\xff"}',
    '{"id":"\xc3"}',
    '{"id":"\xed\xa0\x80"}',
    '{"id":"\xf4\x90\x80\x80"}',
    '{"id":"\xc0\x80"}',
  ];
  for (const text of texts) {
    expect(await post(Buffer.from(text, "latin1"))).toEqual({ status: 400, code: "malformed_json" });
  }
});

test("all of that within half a gigabyte", () => {
  expect(memory.peak().resident).toBeLessThan(500_000_000);
});
