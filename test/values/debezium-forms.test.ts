// Every value of every type in Debezium's form, under each of its modes: what is sent says what the source's own text says, and the
// embedded schema says what it is.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { zeroLsn } from "../../src/change/lsn.ts";
import type { Relation } from "../../src/change/relation.ts";
import type { ConnectSchema } from "../../src/sink/format/connect-schema.ts";
import type { DataTypeOptions } from "../../src/sink/format/debezium/debezium-column.ts";
import { DebeziumRowEncoder } from "../../src/sink/format/debezium/debezium-row.ts";
import { ByteWriter } from "../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../src/sink/format/values/tuple-view.ts";
import { tupleBytes } from "../support/rows/batch-fixture.ts";
import { isValue } from "./debezium-values.ts";
import { dataTypeModes, type StoredTable, storedTables } from "./stored-tables.ts";
import { parseExactly } from "./webhook-values.ts";

let stored: readonly StoredTable[];
beforeAll(async () => {
  stored = await storedTables();
}, 60_000);
afterAll(() => {
  stored = [];
});

interface Sent {
  readonly schema: { readonly fields: readonly { readonly fields: readonly ConnectSchema[] }[] };
  readonly payload: { readonly after: Record<string, unknown> };
}

function encoder(of: Relation, dataTypes: DataTypeOptions) {
  const fixed = { version: "1", name: "c", database: "d", includeBefore: true, placeholder: false };
  const made = new DebeziumRowEncoder(of, { ...fixed, dataTypes, embedSchema: true, now: () => 0 });
  const view = new TupleView();
  const out = new ByteWriter();
  return (row: readonly (string | null)[]): Sent => {
    const arena = tupleBytes(row);
    view.read(arena, 0, arena.length);
    out.length = 0;
    made.writeRow(out, arena, new TupleView(), view, {
      operation: "create",
      version: 1,
      oldIsKey: false,
      commitTimeUs: 0,
      commitLsn: zeroLsn,
      place: 0,
      xid: 1,
      totalOrder: 0,
      tableOrder: 0,
      snapshot: false,
    });
    return parseExactly(Buffer.from(out.slice()).toString()) as Sent;
  };
}

function areElements(schema: ConnectSchema, texts: unknown, sent: unknown, binary: string): boolean {
  if (texts === null || sent === null) return texts === sent;
  if (!Array.isArray(texts)) return isValue(schema, String(texts), sent, binary);
  const isAsLong = Array.isArray(sent) && sent.length === texts.length;
  return isAsLong && texts.every((text, i) => areElements(schema, text, sent[i], binary));
}

test.each(dataTypeModes.map((mode) => [Object.values(mode).join(", "), mode] as const))(
  "under %s every value is what the source's text says",
  (_, mode) => {
    const wrong: string[] = [];
    for (const { table, relation: of, rows, elements } of stored) {
      const encode = encoder(of, mode);
      rows.forEach((row, r) => {
        const { schema, payload } = encode(row);
        table.columns.forEach(({ name, isArray, json }, c) => {
          const field = schema.fields[1]!.fields[c]!;
          const text = row[c] ?? null;
          const sent = payload.after[name];
          const binary = json === "base64" ? mode.binary_handling_mode : "";
          const isRight = () => {
            if (text === null) return sent === null;
            if (!isArray) return isValue(field, text, sent, binary);
            return areElements(field.items!, JSON.parse(elements[r]![c]!), sent, binary);
          };
          if (!isRight())
            wrong.push(`${name}: ${text?.slice(0, 80)} → ${JSON.stringify(sent)?.slice(0, 80)}`);
        });
      });
    }
    expect(wrong).toEqual([]);
    expect(stored.flatMap(({ rows }) => rows).length).toBeGreaterThan(100);
  },
);
