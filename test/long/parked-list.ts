// A hundred thousand parked messages: listed by cursor, read by a run, discarded meanwhile, in little memory.

import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ParkedMessage, ParkedPage } from "../../src/connector/parking.ts";
import { openState } from "../../src/state/open-state.ts";
import { storedConnector } from "../support/api/sample-connector.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

const count = 100_000;
const body = new Uint8Array(Bun.zstdCompressSync(Buffer.from('[{"id":1,"v":"some text"}]')));

function message(n: number): ParkedMessage {
  return {
    id: `018bcfe5-6800-7000-8000-${String(n).padStart(12, "0")}`,
    schema: "public",
    table: "orders",
    hashes: [n % 50_000],
    isWide: false,
    places: [BigInt(n)],
    firstRows: null,
    versions: [n],
    isOfCopy: false,
    bytes: 26,
    keys: `[{"id":${n}}]`,
    rows: 1,
    body,
    firstLsn: "0/1",
    committedAtMs: 1_700_000_000_000,
    cause: "refused",
    mayHaveArrived: false,
    attempts: [{ at: "2026-01-02T03:04:05.678Z", status: 400, answer: "no".repeat(100) }],
  };
}

test("listing and discarding a hundred thousand", async () => {
  await using server = await PostgresServer.start();
  const directory = await mkdtemp(join(tmpdir(), "millrace-parked-"));
  await using state = await openState({
    databaseUrl: `postgres://postgres@127.0.0.1:${server.port}/postgres`,
    dataDirectory: directory,
    encryptionKey: Buffer.alloc(32, 7).toString("base64"),
    instance: crypto.randomUUID(),
  });
  await state.connectors.insert(storedConnector("many"));
  for (let n = 0; n < count; n += 1_000) {
    const messages = Array.from({ length: 1_000 }, (_, i) => message(n + i));
    await state.parking.answer("many", { kind: "park", messages }, null);
  }
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  let most = 0;
  const seen = new Set<string>();
  const page = { limit: 1_000, schema: null, table: null, before: null, isDiscarded: false };
  for (let after: string | null = null, first = true; first || after !== null; first = false) {
    const listed = await state.parked.list("many", { ...page, after });
    for (const { id } of listed.parked) seen.add(id);
    after = listed.next;
    // Some are discarded while the list is read: the place in it stays good.
    if (after !== null)
      expect(await state.parked.discard("many", { id: listed.parked[0]!.id }, "ann")).toBe(1);
    most = Math.max(most, process.memoryUsage.rss());
  }
  expect(seen.size).toBe(count);
  for (let after: number | null = 0; after !== null; ) {
    const loaded = (await state.parking.answer("many", { kind: "load", after }, null)) as ParkedPage;
    after = loaded.next;
    most = Math.max(most, process.memoryUsage.rss());
  }
  expect((most - before) / 1e6).toBeLessThan(256);
  const began = performance.now();
  expect(await state.parked.discard("many", {}, "ann")).toBe(count - 99);
  console.log(
    `all discarded in ${Math.round(performance.now() - began)} ms, ${Math.round((most - before) / 1e6)} MB`,
  );
  await rm(directory, { recursive: true, force: true });
}, 300_000);
