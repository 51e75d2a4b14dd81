import { describe, expect, test } from "bun:test";
import { Reader, readRecordsBatch } from "@platformatic/kafka";
import { completeHeaders } from "../../../src/connector/config/kafka/debezium-headers.ts";
import type { RowOperation } from "../../../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { RecordBatch } from "../../../src/sink/kafka/client/record-batch.ts";
import { MessageHeaders, plainHeaders } from "../../../src/sink/kafka/message-headers.ts";

const source = { connectorId: "c1", database: "shop", schema: "öffentlich", table: "orders" };
const idempotencyKey = "0190b5a0-0000-7000-8000-000000000000";

function written(text: string): ByteWriter {
  const out = new ByteWriter();
  out.all(Buffer.from(text));
  return out;
}

/** As whoever reads the message sees them. */
function read(headers: ByteWriter): readonly (readonly [string, string])[] {
  const batch = new RecordBatch();
  batch.add(null, null, headers);
  const producer = { producerId: -1n, epoch: -1, sequence: -1, isTransactional: false };
  const [record] = readRecordsBatch(Reader.from(batch.finish(producer, "none", 0))).records;
  return record!.headers.map(([name, value]) => [String(name), String(value)] as const);
}

function headersOf(
  headers: Parameters<typeof completeHeaders>[0] | null,
  operation: RowOperation,
  other: { readonly key: string; readonly isNew: boolean } | null = null,
): readonly (readonly [string, string])[] {
  const made = new MessageHeaders({ headers: headers && completeHeaders(headers) }, source);
  const out = new ByteWriter(1);
  const otherKey = other && { key: written(other.key), isNew: other.isNew };
  made.write(out, operation, (to) => to.all(Buffer.from(idempotencyKey)), otherKey);
  return read(out);
}

describe("headers of native messages", () => {
  const native = [
    ["X-Source-Schema", "öffentlich"],
    ["X-Source-Table", "orders"],
    ["Idempotency-Key", idempotencyKey],
  ] as const;

  test.each(["create", "update", "delete", "read"] as const)("name table and message (%s)", (operation) => {
    expect(headersOf(null, operation)).toEqual(native);
  });

  test("have the other key where the key changes", () => {
    expect(headersOf(null, "delete", { key: '{"id":2}', isNew: true })).toEqual([
      ...native,
      ["__debezium.newkey", '{"id":2}'],
    ]);
    expect(headersOf(null, "create", { key: '{"id":1}', isNew: false })).toEqual([
      ...native,
      ["__debezium.oldkey", '{"id":1}'],
    ]);
  });
});

describe("headers of debezium's messages", () => {
  test("are none, where no switch is on", () => {
    expect(headersOf({}, "create")).toEqual([]);
  });

  test("are those that are switched on, under their names", () => {
    const on = { op: true, db: true, schema: true, tbl: true, context: true };
    expect(headersOf(on, "update")).toEqual([
      ["__op", "u"],
      ["__db", "shop"],
      ["__schema", "öffentlich"],
      ["__tbl", "orders"],
      ["__context", "c1"],
    ]);
    expect(headersOf({ op: true, tbl: true, prefix: "cdc.", tbl_name: "table" }, "delete")).toEqual([
      ["cdc.op", "d"],
      ["table", "orders"],
    ]);
  });

  test.each([
    ["create", "c"],
    ["update", "u"],
    ["delete", "d"],
    ["read", "r"],
    ["truncate", "t"],
  ] as const)("say what happened (%s)", (operation, letter) => {
    expect(headersOf({ op: true }, operation)).toEqual([["__op", letter]]);
  });

  test("have the source in the words of its template", () => {
    const origin = {
      source_name: "origin",
      source_template: "{connector}/{database}.{schema}.{table}{table}",
    };
    expect(headersOf(origin, "read")).toEqual([["origin", "c1/shop.öffentlich.ordersorders"]]);
  });

  test("have the other key unless that is switched off", () => {
    const other = { key: "k".repeat(10_000), isNew: true };
    expect(headersOf({}, "delete", other)).toEqual([["__debezium.newkey", other.key]]);
    expect(headersOf({ pk_update: false, op: true }, "delete", other)).toEqual([["__op", "d"]]);
  });
});

test("plain headers are those that are given", () => {
  expect(read(plainHeaders([]))).toEqual([]);
  const long = [
    ["a".repeat(200), "b".repeat(20_000)],
    ["", ""],
  ] as const;
  expect(read(plainHeaders(long))).toEqual(long);
});
