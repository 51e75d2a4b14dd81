// COPY TO STDOUT without pg's parser, from a real server.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { Client } from "pg";
import { copyOut } from "../../../src/connection/copy/copy-out.ts";
import { destroyClient, socketOf } from "../../../src/connection/postgres-client.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
let client: Client & AsyncDisposable;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

async function collect(sql: string, seen: Uint8Array[] = []): Promise<string> {
  for await (const chunk of copyOut(client, sql)) seen.push(new Uint8Array(chunk));
  return Buffer.concat(seen).toString();
}

test("all rows arrive in few chunks, and the session remains usable", async () => {
  client = await server.connect();
  await using _client = client;
  const chunks: Uint8Array[] = [];
  const text = await collect("copy (select i from generate_series(1, 200000) i) to stdout", chunks);
  expect(text).toBe(Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join(""));
  // 1.3 MB. The server sends 8 kB at a time.
  expect(chunks.length).toBeLessThan(100);
  expect(await collect("copy (select 1 where false) to stdout")).toBe("");
  expect((await client.query("select 2 as two")).rows).toEqual([{ two: 2 }]);
});

test("rows are counted while they arrive, and the end of a binary copy counts as one more", async () => {
  client = await server.connect();
  await using _client = client;
  const counted = async (form: string) => {
    const count = { rows: 0 };
    const seen: number[] = [];
    const sql = `copy (select i from generate_series(1, 200000) i) to stdout (format ${form})`;
    for await (const _ of copyOut(client, sql, count)) seen.push(count.rows);
    expect(seen[0]).toBeGreaterThan(0);
    expect(seen[0]).toBeLessThan(200_000);
    return count.rows;
  };
  expect([await counted("text"), await counted("binary")]).toEqual([200_000, 200_001]);
});

test("an error among the rows is thrown as pg reports it, and so is one before the first row", async () => {
  client = await server.connect();
  await using _client = client;
  const amid = "copy (select 1 / (90000 - i) from generate_series(1, 100000) i) to stdout";
  await expect(collect(amid)).rejects.toMatchObject({ code: "22012" });
  expect((await client.query("select 2 as two")).rows).toEqual([{ two: 2 }]);
  await expect(collect("copy nothing to stdout")).rejects.toMatchObject({ code: "42P01" });
  expect((await client.query("select 3 as three")).rows).toEqual([{ three: 3 }]);
});

test("slow rows are passed on before the others have arrived", async () => {
  client = await server.connect();
  await using other = await server.connect();
  // The server's buffer takes 8 kB. The first rows are sent, and the next wait for the lock.
  await other.query("select pg_advisory_lock(1)");
  const sql =
    "copy (select repeat('x', 9000), pg_advisory_xact_lock_shared(i) from generate_series(0, 1) i) to stdout";
  const chunks = copyOut(client, sql);
  const first = await chunks.next();
  expect(first.value?.length).toBeGreaterThan(8000);
  await other.query("select pg_advisory_unlock(1)");
  const rest: number[] = [];
  for await (const { length } of chunks) rest.push(length);
  await client.end();
});

test("a slow reader makes the server wait, and receives everything", async () => {
  client = await server.connect();
  await using other = await server.connect();
  await using _client = client;
  const chunks = copyOut(client, "copy (select repeat('y', 999) from generate_series(1, 40000)) to stdout");
  let bytes = (await chunks.next()).value?.length ?? 0;
  const waits = "select from pg_stat_activity where wait_event = 'ClientWrite'";
  await waitFor("the server waits", async () => (await other.query(waits)).rowCount === 1);
  // 40 MB are in flight: what is not in the kernel's memory is not in this process either.
  expect(socketOf(client).bytesRead).toBeLessThan(8_000_000);
  for await (const { length } of chunks) bytes += length;
  expect(bytes).toBe(40_000_000);
});

test("a broken connection ends the copy, whether a chunk is being awaited or not", async () => {
  for (const isWaiting of [true, false]) {
    client = await server.connect();
    client.on("error", () => {});
    const chunks = copyOut(client, "copy (select repeat('z', 999) from generate_series(1, 40000)) to stdout");
    await chunks.next();
    if (!isWaiting) destroyClient(client);
    const end = (async () => {
      for await (const _ of chunks) if (isWaiting) destroyClient(client);
    })();
    await expect(end).rejects.toThrow();
  }
});

test("a header that is cut after the last row goes to pg, with everything after it", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const own = new Client({ ...server.connection("postgres"), port: proxy.port });
  await own.connect();
  client = own as typeof client;
  proxy.splitAt(Buffer.from([0x5a, 0, 0, 0, 5]), 2);
  await expect(collect("copy nothing to stdout")).rejects.toMatchObject({ code: "42P01" });
  expect((await own.query("select 2 as two")).rows).toEqual([{ two: 2 }]);
  await own.end();
});
