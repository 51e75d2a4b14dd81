// A table at source and sink as of one place of the log. The stream is cut there: what was committed before the source's point is at the sink, and
// nothing else. So rows that are equal in the one are equal in the other, however much is written meanwhile, and no row has to be left out.

import { formatLsn } from "../../change/lsn.ts";
import { keyNames, qualifiedName, type TableShape } from "../../change/relation.ts";
import { agreedEncoding, type HashingServer, type RowComparison } from "../../comparison/row-comparison.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { SinkRows, VerifySink } from "../../sink/verify-sink.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import type { VerifySource } from "../../source/verify-source.ts";
import { passedPoint } from "../copy/copy-environment.ts";
import { atHeldPoint } from "../held-point.ts";
import { maxLagBytes, type VerifyEnvironment } from "./verify-environment.ts";

export interface OpenedSides extends AsyncDisposable {
  readonly table: TableShape;
  readonly source: VerifySource;
  readonly point: SnapshotPoint;
  readonly sink: SinkRows;
  readonly comparison: RowComparison;
}

/** A sample is of so many parts of the rows. */
const sampleParts = 1024;

export async function openSides(
  environment: VerifyEnvironment,
  table: TableShape,
  samplePercent: number | null,
  signal: AbortSignal,
): Promise<OpenedSides> {
  const { source, sink } = environment;
  const sides = requireBoth(source.verification, sink.verification);
  // While the stream comes to a point that is held, nothing else goes on, and the source cannot vacuum.
  if (environment.lagBytes() > maxLagBytes) await passedPoint(environment, signal);
  const hashing = await sides.source.hashing();
  return await atHeldPoint(environment, signal, async (point, held) => {
    const rows = held.use(await sides.sink.open(table, signal));
    const comparison = comparisonOf(table, hashing, rows, samplePercent);
    const opened = held.move();
    return {
      table,
      source: sides.source,
      point,
      sink: rows,
      comparison,
      [Symbol.asyncDispose]: () => opened.disposeAsync(),
    };
  });
}

export function asOf({ point }: Pick<OpenedSides, "point">): string {
  return formatLsn(point.lsn);
}

function requireBoth(source: VerifySource | undefined, sink: VerifySink | undefined) {
  if (source && sink) return { source, sink };
  throw new MillraceError(
    "unsupported_kind",
    "What a webhook or Kafka has received cannot be compared with the source: only rows at a Postgres sink can.",
  );
}

function comparisonOf(
  { relation }: TableShape,
  hashing: HashingServer,
  { columns, server }: SinkRows,
  samplePercent: number | null,
): RowComparison {
  const agreed = agreedEncoding(hashing, server);
  if (agreed === null) {
    throw new MillraceError(
      "unsupported_kind",
      `The servers of source and sink hash the same values in different ways, so that rows of ${qualifiedName(relation)} cannot be compared by their hashes.`,
    );
  }
  const key = relation.isKeyedByHash ? [] : relation.key.map((at) => relation.columns[at]!);
  const compared = key.map(({ number }) => columns.find((column) => column.number === number));
  const isKeyed = key.length > 0 && compared.every((column) => column !== undefined);
  return {
    columns,
    key: isKeyed ? key.map(({ number }) => number) : [],
    areEqualRowsOne: relation.isKeyedByHash === true,
    ...agreed,
    sample: samplePercent === null ? null : Math.max(1, Math.round((samplePercent * sampleParts) / 100)),
  };
}

/** The key as the result shows it. */
export function shownKey({ relation }: TableShape, key: readonly string[]): Record<string, string> {
  return Object.fromEntries(keyNames(relation).map((name, i) => [name, key[i] ?? ""]));
}
