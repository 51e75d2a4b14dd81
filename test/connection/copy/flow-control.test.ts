// Flow control of a stream, on real sockets.

import { afterAll, expect, test } from "bun:test";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FlowControl } from "../../../src/connection/copy/flow-control.ts";
import { waitFor } from "../../support/wait-for.ts";

const messageBytes = 100;
const senders = new Set<Socket>();
let sent = 0;
/** Sends one message after the other. */
const server = createServer((socket) => {
  socket.setNoDelay(true);
  senders.add(socket);
  const timer = setInterval(() => {
    socket.write(Buffer.alloc(messageBytes));
    sent++;
  }, 1);
  socket.on("close", () => clearInterval(timer)).on("error", () => {});
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

afterAll(() => {
  for (const socket of senders) socket.destroy();
  server.close();
});

async function connected(): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

test("what arrives during a pause stays in the kernel, and is read in one chunk", async () => {
  const socket = await connected();
  using flow = new FlowControl(() => socket);
  const chunks: number[] = [];
  socket.on("data", ({ length }) => {
    chunks.push(length);
    if (chunks.length === 5) flow.pause();
  });
  await waitFor("it is paused", () => chunks.length >= 5);
  // A read that was in progress when the socket was paused may still arrive.
  await Bun.sleep(20);
  const paused = { chunks: chunks.length, read: socket.bytesRead };
  const sentThen = sent;
  await waitFor("more to be sent", () => sent > sentThen + 60);
  expect({ chunks: chunks.length, read: socket.bytesRead }).toEqual(paused);
  expect(paused.read).toBeLessThan(20 * messageBytes);
  flow.resume();
  await waitFor("it goes on", () => chunks.length > paused.chunks + 3);
  expect(Math.max(...chunks)).toBeGreaterThan(30 * messageBytes);
  socket.destroy();
});

test("a short pause ends by itself, but not while the flow is paused", async () => {
  const socket = await connected();
  const flow = new FlowControl(() => socket);
  let bytes = 0;
  socket.on("data", ({ length }) => {
    bytes += length;
    // Each chunk as if it were the ninth of nine in a row.
    for (let i = 0; i < 9; i++) flow.afterChunk(length);
  });
  await waitFor("short pauses end", () => bytes > 50 * messageBytes);
  flow.pause();
  await Bun.sleep(50);
  const paused = bytes;
  await Bun.sleep(100);
  expect(bytes).toBe(paused);
  flow[Symbol.dispose]();
  await waitFor("it is open", () => bytes > paused);
  socket.destroy();
});

test("a Unix socket, whose buffer is small, is never paused", async () => {
  const directory = await mkdtemp(join(tmpdir(), "millrace-flow-"));
  const local = createServer(() => {}).listen(join(directory, "socket"));
  await once(local, "listening");
  const socket = connect(join(directory, "socket"));
  await once(socket, "connect");
  using flow = new FlowControl(() => socket);
  socket.on("data", () => {});
  for (let i = 0; i < 100; i++) flow.afterChunk(messageBytes);
  expect(socket.isPaused()).toBe(false);
  socket.destroy();
  local.close();
  await rm(directory, { recursive: true });
});
