// Receivers that do odd things with HTTP and with addresses: what an attempt comes to, and that none lasts longer than the timeout.

import { afterEach, expect, test } from "bun:test";
import { createServer } from "node:net";
import { AddressResolver } from "../../../src/connection/egress.ts";
import type { RequestBody } from "../../../src/sink/format/values/message-body.ts";
import { ConnectionPool } from "../../../src/sink/http/connection-pool.ts";
import { type RequestResult, RequestTarget, sendRequest } from "../../../src/sink/http/send-request.ts";
import { StopList } from "../../../src/sink/http/stop-list.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type RawOptions, type RawRequest, rawReceiver } from "../../support/webhook/raw-receiver.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function receiver(answer: (request: RawRequest) => void, options: RawOptions = {}) {
  const to = await rawReceiver(answer, options);
  owned.push(to);
  return to;
}

const encoder = new TextEncoder();
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** Attempts over one resolver, as the sender makes them. */
function poster(url: string, { resolver = new AddressResolver("default"), timeoutMs = 5_000 } = {}) {
  const target = new RequestTarget(url, {});
  const pool = new ConnectionPool();
  owned.push({ [Symbol.asyncDispose]: async () => pool[Symbol.dispose]() });
  const stops = new StopList(new AbortController().signal, timeoutMs);
  return (body: RequestBody = encoder.encode("[1]")): Promise<RequestResult> =>
    sendRequest({ target, headers: {}, body, egress: { resolver, pool }, stops });
}

const local = (port: number) => `http://127.0.0.1:${port}/x`;

test.each([
  ["says that it goes on", `HTTP/1.1 100 Continue\r\n\r\n${ok}`],
  [
    "gives hints first",
    `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n${ok}`,
  ],
  [
    "answers in chunks, with a trailer",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-After: 1\r\n\r\n",
  ],
  ["closes after each response", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"],
  ["speaks HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok"],
  ["puts a body behind a 204", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"],
  ["puts another answer behind a 204", `HTTP/1.1 204 No Content\r\n\r\n${ok}`],
])("a receiver that %s takes one request after the other", async (_, answer) => {
  const to = await receiver(({ socket }) => {
    socket.write(answer);
    if (/close|HTTP\/1\.0/.test(answer)) socket.end();
  });
  const send = poster(local(to.port));
  for (let n = 0; n < 4; n++) {
    const body = encoder.encode(`[${n}]`);
    let result = await send(body);
    // A connection that cannot be read on is given up, and the request goes again.
    for (let again = 0; result.kind === "failed" && again < 3; again++) result = await send(body);
    expect(result.kind).toBe("answered");
  }
  // Whatever was answered had arrived: no answer counts for another request.
  for (let n = 0; n < 4; n++) expect(to.requests.some(({ body }) => body === `[${n}]`)).toBe(true);
});

const large = new Uint8Array(32 * 1024 * 1024);

test("a refusal that comes before the body was read is the answer, and nothing waits for the rest", async () => {
  const to = await receiver(
    ({ socket }) => socket.end("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
    { atHeaders: true },
  );
  expect(await poster(local(to.port))(large)).toMatchObject({ kind: "answered", status: 413 });
});

test("what was taken before the body was read is delivered once the receiver has all of it, and not before", async () => {
  const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  const deaf = await receiver(({ socket }) => socket.write(empty), { atHeaders: true });
  expect(await poster(local(deaf.port), { timeoutMs: 500 })(large)).toMatchObject({ code: "ETIMEDOUT" });
  let read = 0;
  const late = createServer((socket) => {
    socket.write(empty);
    socket.pause();
    setTimeout(() => socket.resume(), 200);
    socket.on("data", (bytes: Buffer) => {
      read += bytes.length;
    });
  });
  await new Promise<void>((resolve) => late.listen(0, "127.0.0.1", resolve));
  const result = await poster(local((late.address() as { port: number }).port))(large);
  expect(result).toMatchObject({ kind: "answered", status: 200 });
  await waitFor("the rest", () => read >= large.length);
  late.close();
});

test("an answer stands when the receiver resets the connection behind its head", async () => {
  const to = await receiver(({ socket }) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", () => socket.resetAndDestroy());
  });
  expect(await poster(local(to.port))()).toMatchObject({ kind: "answered", status: 200 });
});

test("a connection that is half open costs one timeout, and the next attempt takes another", async () => {
  let isDead = false;
  const to = await receiver(({ socket, connection }) => {
    if (!isDead || connection > 0) socket.write(ok);
  });
  const send = poster(local(to.port), { timeoutMs: 300 });
  expect(await send()).toMatchObject({ kind: "answered", status: 200 });
  isDead = true;
  expect(await send()).toMatchObject({ kind: "failed", code: "ETIMEDOUT" });
  expect(await send()).toMatchObject({ kind: "answered", status: 200 });
});

test("gigabytes of an answer are not read", async () => {
  let written = 0;
  const to = await receiver(({ socket }) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
    const more = () => {
      while (!socket.destroyed && written < 1e9) {
        written += chunk.length;
        if (!socket.write(chunk)) return void socket.once("drain", more);
      }
    };
    more();
  });
  expect(await poster(local(to.port))()).toMatchObject({ kind: "answered", status: 200 });
  expect(written).toBeLessThan(64 * 1024 * 1024);
});

test.each([
  ["is no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"],
  ["ends amid its headers", "HTTP/1.1 200 OK\r\nContent-Le"],
  ["has no end of headers", `HTTP/1.1 200 OK\r\n${"X-Header: y\r\n".repeat(200_000)}`],
])("an answer that %s is none", async (_, answer) => {
  const to = await receiver(({ socket }) => socket.end(answer));
  expect(await poster(local(to.port), { timeoutMs: 2_000 })()).toMatchObject({ kind: "failed" });
});

test("a receiver that listens on IPv6 alone, by address and by a name that has both", async () => {
  const to = await receiver(({ socket }) => socket.write(ok), { hostname: "::1" });
  expect(await poster(`http://[::1]:${to.port}/x`)()).toMatchObject({ kind: "answered", status: 200 });
  const both = new AddressResolver("default", async () => ["127.0.0.1", "::1"]);
  const send = poster(`http://hook.example:${to.port}/x`, { resolver: both });
  expect(await send()).toMatchObject({ kind: "answered", status: 200 });
});

test("an address that swallows what is sent there gives way to another of its host", async () => {
  const silent = await receiver(() => {});
  const to = await receiver(({ socket }) => socket.write(ok), { hostname: "::1", port: silent.port });
  const resolver = new AddressResolver("default", async () => ["127.0.0.1", "::1"]);
  const send = poster(`http://hook.example:${to.port}/x`, { resolver, timeoutMs: 300 });
  expect(await send()).toMatchObject({ kind: "failed", code: "ETIMEDOUT" });
  expect(await send()).toMatchObject({ kind: "answered", status: 200 });
});

test("a name that moves is followed, and one that comes to point to a refused address is not", async () => {
  let now = 0;
  let address = "127.0.0.1";
  const resolver = new AddressResolver(
    "default",
    async () => [address],
    () => now,
  );
  const before = await receiver(({ socket }) => socket.write(ok));
  const behind = await receiver(({ socket }) => socket.write(ok), { hostname: "::1", port: before.port });
  const send = poster(`http://hook.example:${before.port}/x`, { resolver });
  await send();
  address = "::1";
  now += 1_001;
  await send();
  expect([before.requests.length, behind.requests.length]).toEqual([1, 1]);
  address = "169.254.169.254";
  now += 1_001;
  expect(await send()).toMatchObject({ kind: "refused", error: { code: "webhook_address_refused" } });
});
