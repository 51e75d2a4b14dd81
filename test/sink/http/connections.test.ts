// Connections that are kept for the next request: which are used again, how long, and what becomes of a request when one ends.

import { afterEach, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { AddressResolver } from "../../../src/connection/egress.ts";
import { PartedBody, type RequestBody } from "../../../src/sink/format/values/message-body.ts";
import { ConnectionPool } from "../../../src/sink/http/connection-pool.ts";
import { type RequestResult, RequestTarget, sendRequest } from "../../../src/sink/http/send-request.ts";
import { StopList } from "../../../src/sink/http/stop-list.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type RawRequest, rawReceiver } from "../../support/webhook/raw-receiver.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

async function receiver(answer: (request: RawRequest) => void) {
  const to = await rawReceiver(answer);
  owned.push(to);
  return to;
}

interface SenderOptions {
  readonly scheme?: "http" | "https";
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly now?: () => number;
}

function sender(port: number, { scheme = "http", timeoutMs = 5_000, signal, now }: SenderOptions = {}) {
  const pool = new ConnectionPool(now);
  owned.push({ [Symbol.asyncDispose]: async () => pool[Symbol.dispose]() });
  const egress = { resolver: new AddressResolver("default"), pool };
  const stops = new StopList(signal ?? new AbortController().signal, timeoutMs);
  const target = new RequestTarget(`${scheme}://127.0.0.1:${port}/x`, {});
  return {
    pool,
    send: (body: RequestBody = Buffer.from("[1]")): Promise<RequestResult> =>
      sendRequest({ target, headers: {}, body, egress, stops }),
  };
}

const connectionsOf = (requests: readonly RawRequest[]) => requests.map(({ connection }) => connection);

test("requests one after the other share a connection, those at once have one each, and all are kept", async () => {
  const waiting: Socket[] = [];
  const to = await receiver(({ socket, body }) => {
    if (body === "later") waiting.push(socket);
    else socket.write(ok);
  });
  const { send } = sender(to.port);
  for (let n = 0; n < 3; n++) await send();
  expect(connectionsOf(to.requests)).toEqual([0, 0, 0]);
  const together = [send(Buffer.from("later")), send(Buffer.from("later"))];
  await waitFor("both", () => waiting.length === 2);
  for (const socket of waiting) socket.write(ok);
  await Promise.all(together);
  await Promise.all([send(), send()]);
  expect(new Set(connectionsOf(to.requests))).toEqual(new Set([0, 1]));
});

test("a request goes out beside 400 that nobody answers", async () => {
  const silent = await receiver(() => {});
  const to = await receiver(({ socket }) => socket.write(ok));
  const { send } = sender(silent.port, { timeoutMs: 20_000 });
  const unanswered = Array.from({ length: 400 }, () => send());
  await waitFor("all to be sent", () => silent.requests.length === 400);
  expect(await sender(to.port).send()).toMatchObject({ kind: "answered", status: 200 });
  await silent[Symbol.asyncDispose]();
  for (const result of await Promise.all(unanswered))
    expect(result).toMatchObject({ kind: "failed", code: "ECONNRESET" });
});

test("a kept connection that ends as it is used: the request goes once more, on a new one, and no further", async () => {
  let isGoing = false;
  const to = await receiver(({ socket }) => {
    if (isGoing) socket.resetAndDestroy();
    else socket.write(ok);
  });
  const { send } = sender(to.port);
  await send();
  isGoing = true;
  expect(await send(Buffer.from("[2]"))).toMatchObject({ kind: "failed", code: "ECONNRESET" });
  expect(to.requests.map(({ body, connection }) => [body, connection])).toEqual([
    ["[1]", 0],
    ["[2]", 0],
    ["[2]", 1],
  ]);
  isGoing = false;
  expect(await send()).toMatchObject({ kind: "answered", isResent: false });
});

test("a kept connection that brings part of an answer and ends has had the request: it is not sent again", async () => {
  const to = await receiver(({ socket, index }) => {
    if (index === 0) socket.write(ok);
    else socket.end("HTTP/1.1 2");
  });
  const { send } = sender(to.port);
  await send();
  expect(await send()).toMatchObject({ kind: "failed", code: "ECONNRESET" });
  expect(to.requests.length).toBe(2);
});

test("what comes while nobody has asked is nobody's answer", async () => {
  const to = await receiver(({ socket, connection }) => {
    socket.write(ok);
    if (connection === 0)
      setTimeout(() => socket.write("HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n"), 20);
  });
  const { send } = sender(to.port);
  await send();
  await Bun.sleep(80);
  expect(await send()).toMatchObject({ kind: "answered", status: 200 });
  expect(connectionsOf(to.requests)).toEqual([0, 1]);
});

test("a connection on which nothing moved for a minute is closed, and one that was used is not", async () => {
  let now = 0;
  const to = await receiver(({ socket }) => socket.write(ok));
  const { pool, send } = sender(to.port, { now: () => now });
  await send();
  now = 59_000;
  pool.closeIdle();
  await send();
  now = 118_000;
  pool.closeIdle();
  await send();
  now = 178_000;
  pool.closeIdle();
  await send();
  expect(connectionsOf(to.requests)).toEqual([0, 0, 0, 1]);
});

test("of kept connections that are all dead the first costs a timeout, and the others nothing", async () => {
  let isDead = false;
  const to = await receiver(({ socket, connection }) => {
    if (!isDead || connection > 3) socket.write(ok);
  });
  const { send } = sender(to.port, { timeoutMs: 300 });
  await Promise.all(Array.from({ length: 4 }, () => send()));
  isDead = true;
  expect(await send()).toMatchObject({ kind: "failed", code: "ETIMEDOUT" });
  expect(await send()).toMatchObject({ kind: "answered" });
});

test("a TLS handshake that the receiver does not go on with ends with the request", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined).resume();
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  const { send } = sender(port, { scheme: "https", timeoutMs: 200 });
  const results = await Promise.all(Array.from({ length: 8 }, () => send()));
  expect(new Set(results.map((result) => result.kind === "failed" && result.code))).toEqual(
    new Set(["ETIMEDOUT"]),
  );
  await waitFor("all to be closed", () => sockets.length === 8 && sockets.every(({ closed }) => closed));
  silent.close();
});

test("receivers that say that they close, and do not, are left all the same", async () => {
  const sockets: Socket[] = [];
  const to = await receiver(({ socket }) => {
    sockets.push(socket);
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  const { send } = sender(to.port);
  for (let n = 0; n < 40; n++) expect(await send()).toMatchObject({ kind: "answered" });
  await waitFor("most to be closed", () => sockets.filter(({ destroyed }) => destroyed).length >= 24);
});

test("a body that cannot be made fails its request, and leaves no connection behind", async () => {
  const to = await receiver(({ socket }) => socket.write(ok));
  const { send } = sender(to.port);
  await send();
  const broken = new PartedBody([bytesOf(1)]);
  broken.chunks = () => {
    throw new RangeError("no memory");
  };
  expect(await send(broken)).toMatchObject({ kind: "failed", code: "RangeError" });
  expect(await send()).toMatchObject({ kind: "answered" });
  expect(connectionsOf(to.requests)).toEqual([0, 1]);
});

test("what is under way when the connections are given up ends with its request, and is not kept", async () => {
  const waiting: Socket[] = [];
  const to = await receiver(({ socket }) => void waiting.push(socket));
  const { pool, send } = sender(to.port);
  const sent = send();
  await waitFor("the request", () => waiting.length === 1);
  pool[Symbol.dispose]();
  waiting[0]!.write(ok);
  expect(await sent).toMatchObject({ kind: "answered" });
  await waitFor("its end", () => waiting[0]!.destroyed);
});

test("a stop ends what is on its way, at once, and the connection with it", async () => {
  const stop = new AbortController();
  const sockets: Socket[] = [];
  const to = await receiver(({ socket }) => void sockets.push(socket));
  const { send } = sender(to.port, { signal: stop.signal });
  const sent = send();
  await waitFor("the request", () => sockets.length === 1);
  stop.abort(new Error("stopped"));
  expect(await sent).toMatchObject({ kind: "failed" });
  await waitFor("the connection to end", () => sockets[0]!.destroyed);
});

test("an answer whose body does not end within the timeout stands", async () => {
  const to = await receiver(({ socket }) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nnot"));
  const { send } = sender(to.port, { timeoutMs: 200 });
  expect(await send()).toMatchObject({ kind: "answered", status: 200, retryAfter: null });
  await send();
  expect(connectionsOf(to.requests)).toEqual([0, 1]);
});

test("bodies of any size arrive as they are, also where the receiver takes its time", async () => {
  const to = await receiver(({ socket }) => socket.write(ok));
  const { send } = sender(to.port);
  const sizes = [0, 1, 65_000, 65_536, 70_000, 5_000_000];
  for (const size of sizes) await send(bytesOf(size));
  await send(new PartedBody([bytesOf(3), bytesOf(300_000), bytesOf(70_001)]));
  expect(to.requests.map(({ body }) => Bun.hash(body))).toEqual(
    [...sizes.map(bytesOf), Buffer.concat([bytesOf(3), bytesOf(300_000), bytesOf(70_001)])].map((bytes) =>
      Bun.hash(bytes.toString()),
    ),
  );
  expect(new Set(connectionsOf(to.requests))).toEqual(new Set([0]));
});

function bytesOf(size: number): Buffer<ArrayBuffer> {
  return Buffer.from(Uint8Array.from({ length: size }, (_, i) => 97 + (i % 23) + ((i >> 12) % 3)));
}
