// A reader's socket that is left to the kernel, on a real one.

import { afterAll, expect, test } from "bun:test";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SocketValve } from "../../../../src/source/postgres/stream/socket-valve.ts";
import { waitFor } from "../../../support/wait-for.ts";

const messageBytes = 100;
const senders = new Set<Socket>();
/** Sends a message by itself, again and again. */
const server = createServer((socket) => {
  socket.setNoDelay(true);
  senders.add(socket);
  const timer = setInterval(() => socket.write(Buffer.alloc(messageBytes)), 1);
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

test("what comes while the valve is held stays with the kernel, and comes in one piece", async () => {
  const socket = await connected();
  using valve = new SocketValve(() => socket);
  const chunks: number[] = [];
  socket.on("data", ({ length }) => {
    chunks.push(length);
    if (chunks.length === 5) valve.hold();
  });
  await waitFor("it is held", () => chunks.length >= 5);
  // One that was on its way when the socket was told may come still.
  await Bun.sleep(20);
  const held = { chunks: chunks.length, read: socket.bytesRead };
  await Bun.sleep(200);
  expect({ chunks: chunks.length, read: socket.bytesRead }).toEqual(held);
  expect(held.read).toBeLessThan(20 * messageBytes);
  valve.release();
  await waitFor("it goes on", () => chunks.length > held.chunks + 3);
  expect(Math.max(...chunks)).toBeGreaterThan(30 * messageBytes);
  socket.destroy();
});

test("a rest ends by itself, but not while the valve is held", async () => {
  const socket = await connected();
  const valve = new SocketValve(() => socket);
  let bytes = 0;
  socket.on("data", ({ length }) => {
    bytes += length;
    // Each as if it were the ninth of nine in a row.
    for (let i = 0; i < 9; i++) valve.afterChunk(length);
  });
  await waitFor("rests end", () => bytes > 50 * messageBytes);
  valve.hold();
  await Bun.sleep(50);
  const held = bytes;
  await Bun.sleep(100);
  expect(bytes).toBe(held);
  valve[Symbol.dispose]();
  await waitFor("it is open", () => bytes > held);
  socket.destroy();
});

test("a Unix socket, which holds little, is never left", async () => {
  const directory = await mkdtemp(join(tmpdir(), "millrace-valve-"));
  const local = createServer(() => {}).listen(join(directory, "socket"));
  await once(local, "listening");
  const socket = connect(join(directory, "socket"));
  await once(socket, "connect");
  using valve = new SocketValve(() => socket);
  socket.on("data", () => {});
  for (let i = 0; i < 100; i++) valve.afterChunk(messageBytes);
  expect(socket.isPaused()).toBe(false);
  socket.destroy();
  local.close();
  await rm(directory, { recursive: true });
});
