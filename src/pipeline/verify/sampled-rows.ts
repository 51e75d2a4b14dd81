// Says of some rows that differ in which columns they do, and how the sink could be mended by hand.

import type { RowKey } from "../../change/copy-part.ts";
import type { Side } from "../../comparison/bucket-differences.ts";
import type { RowDifference } from "../../comparison/unmatched-rows.ts";
import type { Difference } from "../../connector/verification.ts";
import type { RowChange } from "../../sink/verify-sink.ts";
import { type OpenedSides, shownKey } from "./opened-sides.ts";
import { scan } from "./scan-sides.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

export interface SampledRow {
  readonly shown: Difference;
  readonly statement: string;
}

type Texts = readonly (string | null)[];

export async function sampleRows(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  differences: readonly RowDifference[],
  signal: AbortSignal,
): Promise<readonly SampledRow[]> {
  if (differences.length === 0) return [];
  const keys = differences.map(({ key }) => key);
  // A key that only the sink has may be none of the source's type.
  const known = differences.filter(({ kind }) => kind !== "Extra").map(({ key }) => key);
  const atSource = await textsOf(environment, opened, "source", known, signal);
  const atSink = await textsOf(environment, opened, "sink", keys, signal);
  return differences.map(({ key, kind }) => {
    const id = JSON.stringify(key);
    const texts = atSource.get(id) ?? [];
    const columns = kind === "Changed" ? differingColumns(opened, texts, atSink.get(id) ?? []) : [];
    const names = columns.map((number) => nameOf(opened, number));
    return {
      shown: { key: shownKey(opened.table, key), kind, columns: names },
      statement: opened.sink.statement(changeOf(kind, key, texts, columns)),
    };
  });
}

function changeOf(
  kind: RowDifference["kind"],
  key: RowKey,
  texts: Texts,
  columns: readonly number[],
): RowChange {
  switch (kind) {
    case "Missing":
      return { kind, texts };
    case "Extra":
      return { kind, key };
    case "Changed":
      return { kind, key, texts, columns };
    default:
      return kind satisfies never;
  }
}

function differingColumns({ comparison }: OpenedSides, atSource: Texts, atSink: Texts): readonly number[] {
  return comparison.columns.flatMap(({ number }, i) => (atSource[i] === atSink[i] ? [] : [number]));
}

function nameOf({ table }: OpenedSides, number: number): string {
  return table.relation.columns.find((column) => column.number === number)?.name ?? "";
}

/** The texts of the compared columns, by the key as JSON. */
async function textsOf(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  side: Side,
  keys: readonly RowKey[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Texts>> {
  const { key, columns } = opened.comparison;
  const texts = new Map<string, Texts>();
  if (keys.length === 0) return texts;
  await scan(environment, opened, side, { kind: "texts", keys }, signal, (row) => {
    const all = Array.from({ length: key.length + columns.length }, (_, field) => row.text(field));
    texts.set(JSON.stringify(all.slice(0, key.length)), all.slice(key.length));
  });
  return texts;
}
