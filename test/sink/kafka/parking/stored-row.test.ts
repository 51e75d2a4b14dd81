// A row that was parked makes the same message as one that was not.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import type { PlannedRow } from "../../../../src/sink/delivery/stream/request-plan.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { IdempotencyKey } from "../../../../src/sink/format/idempotency-key.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { kafkaSettings } from "../../../../src/sink/kafka/kafka-settings.ts";
import { loadRow, storeRow } from "../../../../src/sink/kafka/parking/stored-row.ts";
import { sampleConfig, sampleRequest } from "../../../support/api/sample-connector.ts";
import { batches, relation, transaction } from "../../../support/rows/batch-fixture.ts";

const table = relation(
  "t",
  [
    ["id", 23, "integer"],
    ["v", 25, "text"],
    ["b", 17, "bytea"],
  ],
  { replicaIdentity: "full" },
);

for (const format of [{ native: {} }, { debezium: {} }])
  test(`rows of every kind, ${Object.keys(format)}`, () => {
    const kafka = { connection: { brokers: ["127.0.0.1:1"] }, format, topic_options: {} };
    const { encoding } = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
    const compiled = compileTable(table, encoding.compile(table));
    const written = (row: PlannedRow) => {
      const out = new ByteWriter();
      compiled.encoder.writeRow(out, row.arena, row.before, row.after, row.context);
      const key = new IdempotencyKey(compiled.keyMaterial);
      key.addRow(row.arena, row.identity ?? row.after, row.identity ? compiled.identity : [], row.moment);
      // But for when it was made.
      const text = new TextDecoder()
        .decode(out.slice())
        .replace(/,"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}$/, "}");
      return `${key.finish()} ${text}`;
    };
    const [wanted, found]: string[][] = [[], []];
    const changes = transaction(1, [
      { kind: "insert", relation: table, after: ["1", 'ä"\\u0000 \n', "\\x00ff"] },
      { kind: "update", relation: table, before: ["1", "a", null], after: ["1", null, "\\x01"] },
      { kind: "update", relation: table, before: ["1", "a", "\\x02"], after: ["2", "b", "\\x03"] },
      { kind: "delete", relation: table, before: ["2", "b", "\\x03"] },
    ]);
    const rows = new ChangeRows(1, encoding, [], null);
    const outlet = {
      addRow: (_: unknown, row: PlannedRow) => {
        wanted!.push(written(row));
        const loaded = loadRow(storeRow(table, row));
        expect(loaded.relation).toEqual(table);
        found!.push(written(loaded.row));
        expect(loaded.row.moved === null).toBe(row.moved === null);
      },
      addBoundary: () => {},
      tookVersion: () => {},
      seal: () => {},
      hasCapacity: true,
      untilCapacity: async () => {},
    };
    for (const batch of batches([changes], { from: { resumeLsn: lsn(1n), partial: null, lastVersion: 1n } }))
      for (let i = 0; i < batch.count; i++) rows.add(batch, i, compiled, outlet);
    expect(found).toEqual(wanted!);
    expect(wanted!.length).toBe(5);
  });
