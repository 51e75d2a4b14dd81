// Where versions go on when other tables are selected.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { selectionOf } from "../../../../src/sink/delivery/delivery-settings.ts";
import { countedIn } from "../../../../src/sink/delivery/record/counted-versions.ts";
import {
  begunRecord,
  formatRecord,
  parseRecord,
  type SinkRecord,
} from "../../../../src/sink/delivery/record/sink-record.ts";
import { webhookConnector } from "../../../support/webhook-rig.ts";

const begun = begunRecord({ resumeLsn: lsn(0x1000n), partial: null, lastVersion: 1_000n });
const noted = countedIn(begun, "two tables", 9);

function readAgain(record: SinkRecord): SinkRecord {
  const stored = parseRecord({ text: formatRecord(record), parts: new Map() });
  if (stored.kind !== "begun") throw new Error("it was not forgotten");
  return stored.record;
}

test("with the same tables versions repeat, also where a build before has not noted which", () => {
  expect(noted.checkpoint).toEqual(begun.checkpoint);
  expect(readAgain(noted)).toEqual(noted);
  expect(countedIn(readAgain(noted), "two tables", 9)).toEqual(noted);
});

test("with other tables they go on above all that were sent, in this run and in those that follow", () => {
  const behind = { commitLsn: lsn(0x2000n), ordinal: 3 };
  const goesOnAt = (record: Partial<SinkRecord>, nowMs: number) => {
    const counted = readAgain(countedIn(readAgain({ ...noted, ...record }), "one table", nowMs));
    expect(countedIn(counted, "one table", nowMs + 1)).toBe(counted);
    return counted.checkpoint.lastVersion;
  };
  expect(goesOnAt({}, 0)).toBe(1_000n);
  expect(goesOnAt({ sentVersion: 2_000n }, 0)).toBe(2_000n);
  expect(goesOnAt({ sentVersion: 2_000n, versionSteps: [{ behind, version: 3_000n }] }, 0)).toBe(3_000n);
  expect(goesOnAt({ sentVersion: 2_000n }, 4)).toBe(4_000n);
});

test("a table that leaves the catalog makes another selection, and other settings do not", () => {
  const connector = webhookConnector("http://127.0.0.1:1");
  const { postgres } = connector.source;
  const { catalog } = postgres!;
  const table = { name: "t", columns: [], action: "Exclude" as const, history_enabled: false };
  const schemas = [{ name: "public", tables: [table], action: "Include" as const }];
  const of = (change: Partial<NonNullable<typeof postgres>>) =>
    selectionOf({ source: { postgres: { ...postgres!, ...change } } });
  expect(of({ catalog: { ...catalog, schemas } })).not.toBe(of({}));
  expect(of({ parallel_snapshots_enabled: !postgres!.parallel_snapshots_enabled })).toBe(of({}));
});
