// What a stream buffers when transactions in progress arrive between others, with messages as the server would send
// them.

import { expect, test } from "bun:test";
import { BatchBuilder } from "../../../../src/change/batch-builder.ts";
import type { ChangeBatch } from "../../../../src/change/change-batch.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import type { Relation } from "../../../../src/change/relation.ts";
import { selectionOf } from "../../../../src/source/postgres/catalog/table-selection.ts";
import { RelationRegistry } from "../../../../src/source/postgres/shapes/relation-registry.ts";
import { targetBatchBytes } from "../../../../src/source/postgres/stream/feedback.ts";
import { PgoutputDecoder } from "../../../../src/source/postgres/stream/pgoutput-decoder.ts";
import {
  type StreamBounds,
  StreamBuffer,
  streamBounds,
} from "../../../../src/source/postgres/stream/stream-buffer.ts";
import { postgresSource } from "../../../support/api/connector-config.ts";

const table = 1;

const int16 = (value: number) => Buffer.from([value >> 8, value & 255]);
function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
function int64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}
const text = (value: string) => Buffer.from(`${value}\0`);
const message = (tag: string, ...parts: readonly Buffer[]) => Buffer.concat([Buffer.from(tag), ...parts]);

/** `xid`: the xid of a message within a block; null outside of blocks. */
const named = (xid: number | null) => (xid === null ? Buffer.alloc(0) : int32(xid));
const announcement = (xid: number | null, oid = table) =>
  message(
    "R",
    ...[named(xid), int32(oid), text("public"), text(`t${oid}`), Buffer.from("d"), int16(1)],
    ...[Buffer.from([1]), text("id"), int32(23), int32(-1)],
  );
function insert(xid: number | null, id: number, oid = table): Buffer {
  const value = Buffer.from(String(id));
  const tuple = [int16(1), Buffer.from("t"), int32(value.length), value];
  return message("I", named(xid), int32(oid), Buffer.from("N"), ...tuple);
}
const inserts = (xid: number | null, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => insert(xid, from + i));
const block = (xid: number, ...messages: readonly Buffer[]) => [
  message("S", int32(xid), Buffer.from([1])),
  ...messages,
  message("E"),
];
const begin = (xid: number, at: number) => message("B", int64(at), int64(0), int32(xid));
const commit = (at: number) => message("C", Buffer.from([0]), int64(at), int64(at + 10), int64(0));
const commitEarly = (xid: number, at: number) =>
  message("c", int32(xid), Buffer.from([0]), int64(at), int64(at + 10), int64(0));

const megabyte = 1024 * 1024;
const abort = (xid: number) => message("A", int32(xid), int32(xid));

const smallBounds: StreamBounds = {
  maxBufferedBytes: megabyte,
  maxBufferedRows: 10,
  batchBytes: targetBatchBytes,
  pieceBytes: megabyte,
  ahead: { bytes: 32 * megabyte, rows: 10 },
  batchRows: 10,
  maxTables: 3,
};

function stream(bounds: StreamBounds = smallBounds) {
  const selection = selectionOf(
    postgresSource({ host: "h", port: 1, user: "u", password: "", database: "d" }),
  );
  const registry = new RelationRegistry(
    selection,
    [],
    () => undefined,
    () => {},
    "text",
  );
  const checkpoint = { resumeLsn: lsn(100n), partial: null, lastVersion: 0n };
  const builder = new BatchBuilder("text", checkpoint.resumeLsn);
  const decoder = new PgoutputDecoder(builder, "text", checkpoint, registry, () => []);
  const buffer = new StreamBuffer(decoder, "text", bounds);
  const send = (...messages: readonly Buffer[]) => {
    for (const bytes of messages) {
      decoder.decode(bytes, 0, bytes.length);
      buffer.splitInProgress();
    }
  };
  return { buffer, send, registry };
}

function takeAll(buffer: StreamBuffer): ChangeBatch[] {
  const taken: ChangeBatch[] = [];
  for (let batch = buffer.take(); batch; batch = buffer.take()) {
    taken.push(batch);
    buffer.releaseTaken();
  }
  return taken;
}

const summary = ({ count, inProgress, endsInTransaction, resumeLsn }: ChangeBatch) => ({
  count,
  end: Number(resumeLsn),
  isPiece: endsInTransaction,
  outcome: inProgress?.outcome ?? null,
});

test("a part that fills the buffer during another's pieces does not block that one's end", () => {
  const { buffer, send } = stream({ ...smallBounds, batchRows: 1000 });
  // One chunk. The socket is paused after it.
  send(...block(7, announcement(7), ...inserts(7, 1, 10)), begin(8, 200), announcement(null));
  send(...inserts(null, 101, 103));
  expect(buffer.isFull).toBe(true);
  expect(takeAll(buffer).map(summary)).toEqual([{ count: 3, end: 100, isPiece: true, outcome: null }]);
  expect(buffer.isFull).toBe(false);
  send(...inserts(null, 104, 105), commit(200));
  expect(takeAll(buffer).map(summary)).toEqual([
    { count: 2, end: 210, isPiece: false, outcome: null },
    { count: 10, end: 100, isPiece: false, outcome: "open" },
  ]);
  send(commitEarly(7, 300));
  expect(takeAll(buffer).map(summary)).toEqual([
    { count: 0, end: 310, isPiece: false, outcome: "committed" },
  ]);
});

test("a transaction in progress waits in batches, and may have more of them than others", () => {
  const ahead = { bytes: 32 * megabyte, rows: 25 };
  const { buffer, send } = stream({ ...smallBounds, ahead });
  send(begin(8, 200), announcement(null), ...inserts(null, 101, 102), commit(200));
  send(message("S", int32(7), Buffer.from([1])), announcement(7), ...inserts(7, 1, 22));
  expect(buffer.isFull).toBe(false);
  send(insert(7, 23));
  expect(buffer.isFull).toBe(true);
  expect(takeAll(buffer).map(summary)).toEqual([
    { count: 2, end: 210, isPiece: false, outcome: null },
    { count: 10, end: 210, isPiece: false, outcome: "open" },
    { count: 10, end: 210, isPiece: false, outcome: "open" },
  ]);
  expect(buffer.isFull).toBe(false);
  // Transactions between its blocks are within the limits of all.
  send(...inserts(7, 24, 45), message("E"));
  send(begin(9, 300), ...inserts(null, 103, 104));
  expect(buffer.isFull).toBe(true);
  send(commit(300), commitEarly(7, 400));
  expect(takeAll(buffer).map(summary)).toEqual([
    { count: 10, end: 210, isPiece: false, outcome: "open" },
    { count: 10, end: 210, isPiece: false, outcome: "open" },
    { count: 2, end: 310, isPiece: false, outcome: null },
    { count: 5, end: 410, isPiece: false, outcome: "committed" },
  ]);
});

test("waiting parts of a transaction in progress are dropped when it rolls back", () => {
  const ahead = { bytes: 32 * megabyte, rows: 100 };
  const { buffer, send } = stream({ ...smallBounds, ahead });
  send(...block(7, announcement(7), ...inserts(7, 1, 25)), abort(7));
  expect(takeAll(buffer)).toEqual([]);
  send(...block(8, announcement(8), ...inserts(8, 1, 25)));
  expect(summary(buffer.take()!)).toEqual({ count: 10, end: 100, isPiece: false, outcome: "open" });
  send(abort(8), begin(9, 200), announcement(null), insert(null, 1), commit(200));
  expect(takeAll(buffer).map(summary)).toEqual([
    { count: 0, end: 100, isPiece: false, outcome: "aborted" },
    { count: 1, end: 210, isPiece: false, outcome: null },
  ]);
});

test("the size of what waits includes the offsets of its changes, however small the changes are", () => {
  const { buffer, send } = stream({ ...streamBounds(0) });
  send(message("S", int32(7), Buffer.from([1])), announcement(7));
  const row = insert(7, 1);
  let rows = 0;
  for (; !buffer.isFull; rows++) send(row);
  const buffered = takeAll(buffer).reduce(
    (sum, { arena, kind }) => sum + arena.byteLength + kind.length * 30,
    0,
  );
  expect(rows).toBeGreaterThan(300_000);
  expect(buffered).toBeLessThan(40 * megabyte);
});

test("a batch of inserts is as large as the sink asks for", () => {
  const insertsThatFit = (batchBytes: number) => {
    const { buffer, send } = stream(streamBounds(0, batchBytes));
    send(begin(7, 200), announcement(null));
    for (let rows = 0; ; rows++) {
      if (buffer.isFull) return rows;
      send(insert(null, 1));
    }
  };
  const rows = insertsThatFit(megabyte / 2);
  expect(rows).toBeGreaterThan(10_000);
  expect(insertsThatFit(megabyte) / rows).toBeCloseTo(2, 2);
});

test("few rows do not become a batch, however few may wait", () => {
  const { buffer, send } = stream(streamBounds(1));
  send(...block(7, announcement(7), ...inserts(7, 1, 1000)));
  expect(takeAll(buffer).map(({ count }) => count)).toEqual([1000]);
});

test("a relation that a transaction in progress announces is not used for others before its commit", () => {
  const { send, registry } = stream();
  send(begin(6, 200), announcement(null), insert(null, 1), commit(200));
  const own = registry.find(table)?.relation;
  send(...block(7, announcement(7), insert(7, 2)));
  expect(registry.find(table)?.relation).toBe(own!);
  send(begin(8, 300), insert(null, 3), commit(300), ...block(7, insert(7, 4)), commitEarly(7, 400));
  expect(registry.find(table)?.relation).not.toBe(own!);
  const later = registry.find(table)?.relation;
  send(...block(9, announcement(9), insert(9, 5)), message("A", int32(9), int32(9)));
  expect(registry.find(table)?.relation).toBe(later!);
});

test("changes of a table that is announced again as it was have one index from there on", () => {
  const { buffer, send, registry } = stream();
  const taken = () => {
    const batch = buffer.take()!;
    for (const { relation } of registry.undescribed(batch.relations)) {
      const columns = relation.columns.map((column, i) => ({ ...column, number: i + 1 }));
      const lists = [batch.relations as Relation[], ...buffer.relationLists];
      registry.describe(relation, { ...relation, columns }, lists);
    }
    return batch;
  };
  send(begin(7, 200), announcement(null), insert(null, 1), commit(200));
  taken();
  send(begin(8, 300), insert(null, 2), commit(300), begin(9, 400), insert(null, 3));
  // As after CREATE INDEX within a transaction.
  send(announcement(null), insert(null, 4));
  taken();
  send(
    commit(400),
    ...block(10, announcement(10), insert(10, 5)),
    begin(11, 500),
    insert(null, 6),
    commit(500),
  );
  const { count, relation, relations } = taken();
  const indexes = [...relation.subarray(0, count)];
  expect(indexes).toEqual(indexes.toSorted());
  expect(new Set(indexes.map((i) => relations[i])).size).toBe(1);
  expect(count).toBe(3);
});

test("batches of inserts are smaller than batches of changes that may replace each other", () => {
  const most = 6 * 1024 * 1024;
  const bounds = { ...smallBounds, maxBufferedBytes: most, maxBufferedRows: 1e6, pieceBytes: most };
  /** How many inserts fit into a batch after the messages `first`. */
  const insertsThatFit = (...first: readonly Buffer[]) => {
    const { buffer, send } = stream(bounds);
    send(begin(7, 200), announcement(null), ...first);
    for (let rows = 0; ; rows++) {
      if (buffer.isFull) return rows;
      send(insert(null, 1));
    }
  };
  const removal = message(
    "D",
    int32(table),
    Buffer.from("K"),
    int16(1),
    Buffer.from("t"),
    int32(1),
    Buffer.from("1"),
  );
  const alone = insertsThatFit();
  expect(alone).toBeGreaterThan(80_000);
  expect(insertsThatFit(removal) / alone).toBeCloseTo(most / targetBatchBytes, 2);
});

/** The tables of a batch's changes, by transaction. */
function tablesOf({ count, relation, transaction, transactions, relations }: ChangeBatch): number[][] {
  const of: number[][] = Array.from({ length: transactions.count }, () => []);
  for (let i = 0; i < count; i++) of[transaction[i]!]!.push(relations[relation[i]!]!.id);
  return of;
}

test("a batch ends with the transaction that brings it to as many tables as a batch may have", () => {
  const { buffer, send } = stream({ ...smallBounds, maxBufferedRows: 100 });
  for (let oid = 1; oid <= 9; oid++) send(announcement(null, oid));
  const transaction = (at: number, ...oids: readonly number[]) =>
    send(begin(at, at), ...oids.map((oid) => insert(null, at, oid)), commit(at));
  transaction(200, 1, 2);
  transaction(210, 2);
  transaction(220, 1, 3, 4, 5);
  transaction(230, 3);
  transaction(240, 1);
  transaction(250, 3, 6);
  transaction(260, 6);
  expect(buffer.hasFullBatch).toBe(true);
  const batches = takeAll(buffer);
  expect(batches.map(tablesOf)).toEqual([[[1, 2], [2], [1, 3, 4, 5]], [[3], [1], [3, 6]], [[6]]]);
  expect(batches.map(summary)).toEqual([
    { count: 7, end: 230, isPiece: false, outcome: null },
    { count: 4, end: 260, isPiece: false, outcome: null },
    { count: 1, end: 270, isPiece: false, outcome: null },
  ]);
});

test("tables of transactions that were handed out do not count towards the next batch", () => {
  const { buffer, send } = stream(smallBounds);
  for (let oid = 1; oid <= 4; oid++) send(announcement(null, oid));
  send(begin(7, 200), insert(null, 1, 1), insert(null, 2, 2), commit(200));
  send(begin(8, 300), insert(null, 3, 2), insert(null, 4, 3), insert(null, 5, 2));
  expect(tablesOf(buffer.take()!)).toEqual([[1, 2]]);
  send(insert(null, 6, 3), commit(300), begin(9, 400), insert(null, 7, 2), commit(400));
  send(begin(10, 500), insert(null, 8, 4), commit(500), begin(11, 600), insert(null, 9, 1), commit(600));
  const batches = takeAll(buffer);
  expect(batches.map(tablesOf)).toEqual([[[2, 3, 2, 3], [2], [4]], [[1]]]);
  expect(batches.map(({ relations }) => relations.map(({ id }) => id))).toEqual([[2, 3, 4], [1]]);
});
