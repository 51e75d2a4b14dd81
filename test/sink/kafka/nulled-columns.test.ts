// A value that Avro cannot hold is null in the message, and people are told.

import { expect, test } from "bun:test";
import { AddressResolver } from "../../../src/connection/egress.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { NulledColumns } from "../../../src/sink/kafka/nulled-columns.ts";
import { TableEncoding } from "../../../src/sink/kafka/table-encoders.ts";
import { sampleConfig, sampleRequest } from "../../support/api/sample-connector.ts";
import { avroType, decodeMessage } from "../../support/rows/avro-decoding.ts";
import { encodedRow } from "../../support/rows/avro-rows.ts";
import { relation, type TextTuple } from "../../support/rows/batch-fixture.ts";
import { SchemaRegistryDouble } from "../../support/rows/schema-registry.ts";

const table = relation("measured", [
  ["id", 23, "integer"],
  ["grid", 1007, "integer[]"],
  ["n", 1700, "numeric"],
]);
const rows: readonly TextTuple[] = [
  ["1", "{1,2}", "1.5"],
  ["2", "{{1,2},{3,4}}", "NaN"],
  ["3", "{{1,2},{3,4}}", "Infinity"],
];

test.each([
  ["native", [["public.measured.grid"]]],
  ["debezium", [["public.measured.grid"], ["public.measured.n", "public.measured.grid"]]],
] as const)("in the %s form each column is told once", async (format, expected) => {
  await using registry = new SchemaRegistryDouble();
  const format_config = { value_serde: { avro: { schema_registry: { url: registry.url } } } };
  const connection = { brokers: ["127.0.0.1:1"] };
  const kafka = { connection, format: { [format]: { format_config } }, topic_options: {} };
  const settings = kafkaSettings(
    sampleConfig("rig", { ...sampleRequest(), sink: { kafka: kafka as never } }),
  );
  const told: string[] = [];
  const encoding = new TableEncoding(settings, new AddressResolver("default"), (text) => told.push(text));
  const { value } = await encoding.encoders(table, "measured", new AbortController().signal);
  const grids = rows.map((after) => {
    const type = avroType(registry.subjects.get("measured-value")![0]!);
    const row = decodeMessage(encodedRow(value, { after }), type).value as Record<string, unknown>;
    return ((row.after ?? row) as Record<string, unknown>).grid;
  });
  expect(grids).toEqual([[1, 2], null, null]);
  expect(told).toHaveLength(expected.length);
  for (const [i, names] of expected.entries())
    expect(told[i]).toStartWith(`Avro cannot hold some values of ${names.join(", ")}: they are null`);
});

test("of many columns the last one is named, and how many there are", () => {
  const told: string[] = [];
  const nulled = new NulledColumns((text) => told.push(text));
  const columns = Array.from({ length: 5 }, (_, i) => [`c${i}`, 1007, "integer[]"] as const);
  const wide = relation("w", [...columns]);
  for (let c = 0; c < 5; c++) nulled.add(wide, c);
  expect(told.at(-1)).toStartWith(
    "Avro cannot hold some values of public.w.c4, public.w.c3, public.w.c2 and 2 more:",
  );
});
