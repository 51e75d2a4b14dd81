// How long the encoders of messages take for a row, in both formats and both encodings: `bun bench/encoders.ts [rows]`.

import { lsn } from "../src/change/lsn.ts";
import type { Column, Relation } from "../src/change/relation.ts";
import { avroEncoding } from "../src/sink/format/avro/avro-encoding.ts";
import { DebeziumRowEncoder } from "../src/sink/format/debezium/debezium-row.ts";
import { NativeRowEncoder } from "../src/sink/format/native-row.ts";
import type { RowContext, RowEncoder } from "../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../src/sink/format/values/tuple-view.ts";

const rows = Number(process.argv[2] ?? 1_000_000);
const different = 10_000;
const perTransaction = 100;

const columns = (
  [
    ["id", 20, "bigint"],
    ["count", 23, "integer"],
    ["name", 25, "text"],
    ["at", 1184, "timestamp with time zone"],
    ["price", 1700, "numeric(12,2)", ((12 << 16) | 2) + 4],
    ["tag", 2950, "uuid"],
    ["flag", 16, "boolean"],
  ] as const
).map(([name, typeOid, typeName, typmod = -1], index): Column => {
  return { name, number: index + 1, typeOid, typmod, typeName, binaryLayout: null, addedValue: null };
});
const relation: Relation = {
  id: 1,
  schema: "public",
  name: "orders",
  replicaIdentity: "default",
  withheld: [],
  columns,
  key: [0],
};

function tuple(i: number): Buffer {
  const values = [
    String(10_000_000_000 + i),
    String(i * 7),
    `order ${i} `.padEnd(32, "x"),
    `${new Date(1_700_000_000_000 + i * 1000).toISOString().slice(0, 19).replace("T", " ")}.${100_000 + i}+00`,
    `${i * 3}.${String(i % 100).padStart(2, "0")}`,
    `550e8400-e29b-41d4-a716-${String(i).padStart(12, "0")}`,
    i % 2 === 0 ? "t" : "f",
  ];
  const parts = values.flatMap((value) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(value.length);
    return [length, Buffer.from(value)];
  });
  return Buffer.concat([Buffer.of(0, values.length), ...parts]);
}

const tuples = Array.from({ length: different }, (_, i) => tuple(i));
const arena = new Uint8Array(Buffer.concat(tuples));
const starts = [0];
for (const { length } of tuples) starts.push(starts.at(-1)! + length);

const debezium = {
  version: "1.0.0",
  name: "bench",
  database: "shop",
  includeBefore: true,
  now: Date.now,
  dataTypes: {
    binary_handling_mode: "Bytes",
    decimal_handling_mode: "Precise",
    time_precision_mode: "Adaptive",
  },
} as const;
const encoders: Readonly<Record<string, () => RowEncoder>> = {
  "native json": () => new NativeRowEncoder(relation, { placeholder: false }),
  "native avro": () => avroEncoding(relation, { kind: "native", schemaPrefix: "bench" }).encoder(1),
  "debezium json": () =>
    new DebeziumRowEncoder(relation, { ...debezium, embedSchema: false, placeholder: false }),
  "debezium avro": () => avroEncoding(relation, { kind: "debezium", options: debezium }).encoder(1),
};

/** Microseconds for a row, and bytes of it. */
function measure(encoder: RowEncoder, count: number): readonly [us: number, bytes: number] {
  const [before, after] = [new TupleView(), new TupleView()];
  const out = new ByteWriter(1024 * 1024);
  const context: RowContext = {
    operation: "create",
    version: 1_700_000_000_000_000,
    oldIsKey: false,
    commitTimeUs: 0,
    commitLsn: lsn(1n),
    place: 1,
    xid: 1,
    totalOrder: 0,
    tableOrder: 0,
    snapshot: false,
  };
  let bytes = 0;
  const beginning = performance.now();
  for (let i = 0; i < count; i++) {
    if (i % perTransaction === 0) {
      context.commitLsn = lsn(24_000_000n + BigInt(i));
      context.commitTimeUs = 1_700_000_000_000_000 + i;
      bytes += out.length;
      out.length = 0;
    }
    context.version++;
    context.place = 24_000_000 + i;
    const row = i % different;
    after.read(arena, starts[row]!, starts[row + 1]!);
    encoder.writeRow(out, arena, before, after, context);
  }
  return [((performance.now() - beginning) * 1000) / count, (bytes + out.length) / count];
}

const only = process.argv[3];
const chosen = Object.entries(encoders).filter(([name]) => only === undefined || name === only);
for (const [, make] of chosen) measure(make(), rows / 10);
for (let round = 1; round <= 3; round++) {
  for (const [name, make] of chosen) {
    const [us, bytes] = measure(make(), rows);
    console.log(`${name.padEnd(14)} ${us.toFixed(3)} µs a row, ${bytes.toFixed(0)} bytes`);
  }
}
