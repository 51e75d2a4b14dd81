// How schemas follow a table that changes: what a registry takes, and what readers of the other schema read.

import { expect, test } from "bun:test";
import type { Relation } from "../../../../src/change/relation.ts";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import { type AvroFormat, avroEncoding } from "../../../../src/sink/format/avro/avro-encoding.ts";
import { SchemaRegistry } from "../../../../src/sink/kafka/registry/schema-registry.ts";
import { avroType, decodeMessage } from "../../../support/rows/avro-decoding.ts";
import { encodedRow } from "../../../support/rows/avro-rows.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";
import { type Compatibility, SchemaRegistryDouble } from "../../../support/rows/schema-registry.ts";

const debezium: AvroFormat = {
  kind: "debezium",
  options: {
    version: "1",
    name: "shop",
    database: "d",
    includeBefore: true,
    now: () => 0,
    dataTypes: {
      binary_handling_mode: "Bytes",
      decimal_handling_mode: "Precise",
      time_precision_mode: "Adaptive",
    },
  },
};
const native: AvroFormat = { kind: "native", schemaPrefix: "shop" };
const formats = [
  ["native", native],
  ["debezium", debezium],
] as const;

type Columns = Parameters<typeof relation>[1];
const table = (columns: Columns, key: readonly number[] = [0]) => relation("t", columns, { key });
const id = ["id", 23, "integer"] as const;
const name = ["name", 25, "text"] as const;
const point = ["spot", 600, "point"] as const;
const tags = ["tags", 1009, "text[]"] as const;

/** Whether a registry takes the schemas of the second table's rows and keys after those of the first. */
async function follows(
  first: Relation,
  second: Relation,
  format: AvroFormat,
  compatibility: Compatibility = "FULL",
): Promise<boolean> {
  await using registry = new SchemaRegistryDouble({ compatibility });
  const serde = { kind: "avro", autoRegister: true, subjectNameStrategy: "TopicName" } as const;
  const client = new SchemaRegistry(
    { ...serde, registry: { url: registry.url } },
    new AddressResolver("default"),
  );
  const register = async (of: Relation) => {
    const { value, key } = avroEncoding(of, format);
    await client.idOf("t", "value", value);
    await client.idOf("t", "key", key!);
  };
  await register(first);
  try {
    await register(second);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: "sink_schema_rejected" });
    return false;
  }
}

/** A row of the writer's table as a reader of the reader's table has it. */
function read(
  writer: Relation,
  reader: Relation,
  format: AvroFormat,
  after: readonly (string | null)[],
): unknown {
  const encoding = avroEncoding(writer, format);
  const [written, wanted] = [encoding, avroEncoding(reader, format)].map((each) => avroType(each.value.text));
  const { value } = decodeMessage(encodedRow(encoding.encoder(1), { after }), written!, wanted);
  return format.kind === "native" ? value : (value as { after: unknown }).after;
}

test.each(formats)("a column that comes or goes, in the %s form", async (_, format) => {
  const small = table([id, name]);
  for (const added of [["more", 20, "bigint"] as const, point, tags]) {
    const large = table([id, added, name]);
    expect(await follows(small, large, format)).toBe(true);
    expect(await follows(large, small, format)).toBe(true);
    expect(read(small, large, format, ["1", "Anne"])).toMatchObject({
      id: 1,
      name: "Anne",
      [added[0]]: null,
    });
    const value = { more: "7", spot: "(1,2)", tags: "{a}" }[added[0]];
    const withoutIt = read(large, small, format, ["1", value, "Anne"]) as object;
    expect(withoutIt).toMatchObject({ id: 1, name: "Anne" });
    expect(withoutIt).not.toHaveProperty(added[0]);
  }
});

test.each(formats)("a column that is renamed, or moved, in the %s form", async (_, format) => {
  const before = table([id, name]);
  const renamed = table([id, ["title", 25, "text"]]);
  expect(await follows(before, renamed, format)).toBe(true);
  expect(read(before, renamed, format, ["1", "Anne"])).toMatchObject({ id: 1, title: null });
  const moved = table([name, id], [1]);
  expect(await follows(before, moved, format)).toBe(true);
  expect(read(before, moved, format, ["1", "Anne"])).toMatchObject({ id: 1, name: "Anne" });
});

test.each(formats)(
  "a type that Avro widens to, and one that it does not, in the %s form",
  async (_, format) => {
    const whole = table([id, ["n", 23, "integer"]]);
    const wide = table([id, ["n", 20, "bigint"]]);
    expect(await follows(whole, wide, format, "BACKWARD")).toBe(true);
    expect(await follows(whole, wide, format, "FULL")).toBe(false);
    expect(read(whole, wide, format, ["1", "7"])).toMatchObject({ n: 7n });
    expect(await follows(whole, table([id, ["n", 1082, "date"]]), format, "BACKWARD")).toBe(
      format === debezium,
    );
    expect(await follows(whole, table([id, ["n", 16, "boolean"]]), format, "BACKWARD")).toBe(false);
  },
);

test.each(formats)("a column that leaves the key or joins it, in the %s form", async (_, format) => {
  const one = table([id, ["k", 23, "integer"]]);
  const two = table([id, ["k", 23, "integer"]], [0, 1]);
  expect(await follows(one, two, format, "BACKWARD")).toBe(false);
  expect(await follows(two, one, format, "BACKWARD")).toBe(true);
});
