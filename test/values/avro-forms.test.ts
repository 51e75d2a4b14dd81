// Every value of every type in Avro, read by another implementation: what the JSON form of the same format says.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Relation } from "../../src/change/relation.ts";
import { avroEncoding } from "../../src/sink/format/avro/avro-encoding.ts";
import type { ConnectSchema } from "../../src/sink/format/connect-schema.ts";
import { DebeziumRowEncoder } from "../../src/sink/format/debezium/debezium-row.ts";
import { NativeRowEncoder } from "../../src/sink/format/native-row.ts";
import type { RowEncoder } from "../../src/sink/format/row-encoder.ts";
import { avroType, decodeMessage } from "../support/rows/avro-decoding.ts";
import { encodedRow } from "../support/rows/avro-rows.ts";
import { isSameValue } from "./avro-values.ts";
import { dataTypeModes, type StoredTable, storedTables } from "./stored-tables.ts";
import { parseExactly } from "./webhook-values.ts";

let stored: readonly StoredTable[];
beforeAll(async () => {
  stored = await storedTables();
}, 60_000);
afterAll(() => {
  stored = [];
});

type Row = Readonly<Record<string, unknown>>;
/** A JSON encoder with the schema embedded, the Avro form of the same, and where the row is in both. */
interface Forms {
  readonly json: RowEncoder;
  readonly avro: (row: readonly (string | null)[]) => Row;
  readonly pick: (message: unknown) => Row;
  readonly fields: (schema: ConnectSchema) => readonly ConnectSchema[];
}

const base = { version: "1", name: "c", database: "d", includeBefore: true, now: () => 0 };

function debeziumForms(relation: Relation, dataTypes: (typeof dataTypeModes)[number]): Forms {
  const json = new DebeziumRowEncoder(relation, {
    ...base,
    dataTypes,
    embedSchema: true,
    placeholder: false,
  });
  const encoding = avroEncoding(relation, { kind: "debezium", options: { ...base, dataTypes } });
  const pick = (message: unknown) => (message as { after: Row }).after;
  const fields = (schema: ConnectSchema) => schema.fields![1]!.fields!;
  return { json, avro: decoder(encoding), pick, fields };
}

function nativeForms(relation: Relation): Forms {
  const json = new NativeRowEncoder(relation, { placeholder: false, schemaPrefix: "c" });
  const encoding = avroEncoding(relation, { kind: "native", schemaPrefix: "c" });
  const pick = (message: unknown) => message as Row;
  return { json, avro: decoder(encoding), pick, fields: (schema) => schema.fields! };
}

function decoder(encoding: ReturnType<typeof avroEncoding>) {
  const encoder = encoding.encoder(7);
  const type = avroType(encoding.value.text);
  return (row: readonly (string | null)[]) =>
    decodeMessage(encodedRow(encoder, { after: row }), type).value as Row;
}

function differences(formsOf: (relation: Relation) => Forms): string[] {
  const wrong: string[] = [];
  for (const { table, relation, rows } of stored) {
    const { json, avro, pick, fields } = formsOf(relation);
    for (const row of rows) {
      const sent = parseExactly(Buffer.from(encodedRow(json, { after: row })).toString()) as {
        schema: ConnectSchema;
        payload: unknown;
      };
      // Names of fields are others where Avro does not allow them; the order is the same.
      const decoded = Object.values(pick(avro(row)));
      table.columns.forEach(({ name }, c) => {
        if (isSameValue(fields(sent.schema)[c]!, pick(sent.payload)[name], decoded[c])) return;
        wrong.push(`${name}: ${row[c]?.slice(0, 80)} → ${Bun.inspect(decoded[c]).slice(0, 80)}`);
      });
    }
  }
  return wrong;
}

test.each(dataTypeModes.map((mode) => [Object.values(mode).join(", "), mode] as const))(
  "under %s every value is what the JSON form says",
  (_, mode) => {
    expect(differences((relation) => debeziumForms(relation, mode))).toEqual([]);
    expect(stored.flatMap(({ rows }) => rows).length).toBeGreaterThan(100);
  },
);

test("in the native form every value is what the JSON form says", () => {
  expect(differences(nativeForms)).toEqual([]);
});
