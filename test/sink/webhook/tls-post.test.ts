// TLS: the connection goes to a checked address, and the certificate is checked for the name.

import { afterEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type TLSSocket } from "node:tls";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../../support/servers/tls-certificates.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** Posts `count` times in a process that trusts the test root, or not; resolves with the results. */
async function postFrom(
  url: string,
  options: { trusted: boolean; count: number; resolved: string; bytes?: number; lastsMs?: number },
) {
  const directory = await mkdtemp(join(tmpdir(), "millrace-tls-"));
  owned.push({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) });
  const root = join(directory, "root.pem");
  await writeFile(root, testRootCertificate);
  const module = (name: string) => JSON.stringify(join(import.meta.dir, "../../../src/sink/webhook", name));
  const code = `
    const { RequestTarget, sendRequest } = await import(${module("../http/send-request.ts")});
    const { StopList } = await import(${module("../http/stop-list.ts")});
    const { AddressResolver } = await import(${module("../../connection/egress.ts")});
    const resolver = new AddressResolver("default", async () => [${JSON.stringify(options.resolved)}]);
    const { ConnectionPool } = await import(${module("../http/connection-pool.ts")});
    const egress = { resolver, pool: new ConnectionPool() };
    const target = new RequestTarget(${JSON.stringify(url)}, {});
    const stops = new StopList(new AbortController().signal, 5000);
    const results = [];
    for (let i = 0; i < ${options.count}; i++) {
      results.push(await sendRequest({ target, headers: {}, body: new Uint8Array(${options.bytes ?? 2}), egress, stops }));
    }
    await Bun.sleep(${options.lastsMs ?? 0});
    console.log(JSON.stringify(results));
    process.exit(0);`;
  const child = Bun.spawn([process.execPath, "-e", code], {
    env: { ...process.env, ...(options.trusted ? { NODE_EXTRA_CA_CERTS: root } : {}) },
    stdout: "pipe",
    stderr: "inherit",
  });
  const text = await new Response(child.stdout).text();
  await child.exited;
  return JSON.parse(text) as { kind: string; status?: number; code?: string }[];
}

async function tlsReceiver(): Promise<WebhookReceiver> {
  const to = await WebhookReceiver.start({ tls: { cert: testServerCertificate, key: testServerKey } });
  owned.push(to);
  return to;
}

test("the certificate is that of the name, and the connection is used again", async () => {
  const to = await tlsReceiver();
  const url = `https://localhost:${to.port}/x`;
  const results = await postFrom(url, { trusted: true, count: 5, resolved: "127.0.0.1" });
  expect(results.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(to.requests[0]!.headers.host).toBe(`localhost:${to.port}`);
  expect(to.connections).toBe(1);
});

test("a certificate of another name, or of an unknown root, is refused and nothing is sent", async () => {
  const to = await tlsReceiver();
  const wrong = `https://hook.example:${to.port}/x`;
  const [other] = await postFrom(wrong, { trusted: true, count: 1, resolved: "127.0.0.1" });
  expect(other).toMatchObject({ kind: "failed", code: "ERR_TLS_CERT_ALTNAME_INVALID" });
  const url = `https://localhost:${to.port}/x`;
  const [unknown] = await postFrom(url, { trusted: false, count: 1, resolved: "127.0.0.1" });
  expect(unknown!.kind).toBe("failed");
  expect(to.requests.length).toBe(0);
});

const identity = { cert: testServerCertificate, key: testServerKey };

async function tlsServer(serve: (socket: TLSSocket) => void): Promise<string> {
  const server = createServer(identity, (socket) => {
    socket.on("error", () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  owned.push({ [Symbol.asyncDispose]: async () => void server.close() });
  return `https://localhost:${(server.address() as { port: number }).port}/x`;
}

test("gigabytes of an answer are not read, also once the answer is there", async () => {
  let written = 0;
  const url = await tlsServer((socket) => {
    const more = () => {
      while (!socket.destroyed && written < 2e9) {
        written += 65_536;
        if (!socket.write(Buffer.alloc(65_536, "x"))) return void socket.once("drain", more);
      }
    };
    socket.once("data", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      more();
    });
  });
  const [result] = await postFrom(url, { trusted: true, count: 1, resolved: "127.0.0.1", lastsMs: 1_000 });
  expect(result).toMatchObject({ kind: "answered", status: 200 });
  expect(written).toBeLessThan(64 * 1024 * 1024);
});

test("a large body arrives as it is at a receiver that takes its time", async () => {
  const bytes = 20_000_000;
  let read = 0;
  const url = await tlsServer((socket) => {
    socket.on("data", (chunk) => {
      read += chunk.length;
      socket.pause();
      setTimeout(() => socket.resume(), 1);
      if (read >= bytes) socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
  });
  const [result] = await postFrom(url, { trusted: true, count: 1, resolved: "127.0.0.1", bytes });
  expect(result).toMatchObject({ kind: "answered", status: 200 });
  expect(read).toBeGreaterThanOrEqual(bytes);
});
