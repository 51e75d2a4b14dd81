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

/** A longer one is told by its digest, as large values of a hundred rows of both sides would fill the memory. */
const mostCharacters = 8_192;

/** Of a value that is too long to be shown. */
class Digest {
  constructor(readonly hex: string) {}
}

type Value = string | Digest | null;
type Values = readonly Value[];

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
  const atSource = await valuesOf(environment, opened, "source", known, signal);
  const atSink = await valuesOf(environment, opened, "sink", keys, signal);
  return differences.map(({ key, kind }) => {
    const id = JSON.stringify(key);
    const values = atSource.get(id) ?? [];
    const columns = kind === "Changed" ? differingColumns(opened, values, atSink.get(id) ?? []) : [];
    const names = columns.map((number) => nameOf(opened, number));
    const shown = { key: shownKey(opened.table, key), kind, columns: names };
    const isWritten = (number: number) => kind === "Missing" || columns.includes(number);
    const isTooLong = opened.comparison.columns.some(
      ({ number }, i) => isWritten(number) && values[i] instanceof Digest,
    );
    if (isTooLong) return { shown, statement: withoutValues(shown) };
    const texts = values.map((value) => (value instanceof Digest ? value.hex : value));
    return { shown, statement: opened.sink.statement(changeOf(kind, key, texts, columns)) };
  });
}

/** A comment, so that the statements can be run as they are. */
function withoutValues({ key }: Difference): string {
  return `-- The row ${JSON.stringify(key)} has a value of more than ${mostCharacters} characters, which is left out here: repair "Apply" mends it.`;
}

function changeOf(
  kind: RowDifference["kind"],
  key: RowKey,
  texts: readonly (string | null)[],
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

function differingColumns({ comparison }: OpenedSides, atSource: Values, atSink: Values): readonly number[] {
  return comparison.columns.flatMap(({ number }, i) => (isSame(atSource[i], atSink[i]) ? [] : [number]));
}

function isSame(one: Value | undefined, other: Value | undefined): boolean {
  return one instanceof Digest && other instanceof Digest ? one.hex === other.hex : one === other;
}

function nameOf({ table }: OpenedSides, number: number): string {
  return table.relation.columns.find((column) => column.number === number)?.name ?? "";
}

/** The values of the compared columns, by the key as JSON. */
async function valuesOf(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  side: Side,
  keys: readonly RowKey[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Values>> {
  const { key, columns } = opened.comparison;
  const values = new Map<string, Values>();
  if (keys.length === 0) return values;
  await scan(environment, opened, side, { kind: "texts", keys }, signal, (row) => {
    const all = Array.from({ length: key.length + columns.length }, (_, field) => row.text(field));
    values.set(JSON.stringify(all.slice(0, key.length)), all.slice(key.length).map(bounded));
  });
  return values;
}

function bounded(text: string | null): Value {
  if (text === null || text.length <= mostCharacters) return text;
  return new Digest(new Bun.CryptoHasher("sha256").update(text).digest("hex"));
}
