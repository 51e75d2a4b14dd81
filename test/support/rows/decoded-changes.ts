// Changes as objects, decoded from batches and from the text of copies: for tests, which have time.

import {
  type ChangeBatch,
  ChangeFlag,
  ChangeKind,
  UNCHANGED_LENGTH,
} from "../../../src/change/change-batch.ts";
import { CopyTextParser } from "../../../src/change/copy-text.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import { qualifiedName, type Relation } from "../../../src/change/relation.ts";
import { tupleColumns } from "../../../src/change/tuple.ts";
import { chunksUntilAborted } from "../../../src/concurrency/until-aborted.ts";
import type { CopyChunk } from "../../../src/sink/copy-sink.ts";

/** Values as text, by their columns' names. A value that the source did not send is absent. */
export type Row = Readonly<Record<string, string | null>>;

export interface DecodedChange {
  /** A `ChangeKind`. */
  readonly kind: number;
  readonly relation: Relation;
  readonly commitLsn: Lsn;
  readonly before: Row | null;
  /** What the source did not send is taken from the row before, where that came whole. */
  readonly after: Row | null;
  /** How many its values have. */
  readonly bytes: number;
}

export function nameOf({ relation }: { readonly relation: Relation }): string {
  return qualifiedName(relation);
}

export function columnsOf({ relation }: { readonly relation: Relation }): string {
  return relation.columns.map(({ name }) => name).join();
}

/** A row's key as JSON. A row without one gets the name of a row in `rows` that is the same, else one that means nothing. */
export function keyOf(
  { key, columns }: Relation,
  row: Row,
  rows: Iterable<readonly [string, Row]> = [],
): string {
  if (key.length > 0) return JSON.stringify(key.map((i) => row[columns[i]!.name]));
  for (const [name, other] of rows) if (Bun.deepEquals(row, other)) return name;
  return Bun.randomUUIDv7();
}

export function decodedChanges(batch: ChangeBatch): readonly DecodedChange[] {
  return Array.from({ length: batch.count }, (_, i) => {
    const relation = batch.relations[batch.relation[i]!]!;
    const commitLsn = lsn(batch.transactions.commitLsn[batch.transaction[i]!]!);
    const before = rowAt(relation, batch.arena, batch.oldStart[i]!, batch.oldEnd[i]!);
    const sent =
      batch.kind[i] === ChangeKind.truncate
        ? null
        : rowAt(relation, batch.arena, batch.newStart[i]!, batch.newEnd[i]!);
    const isBeforeWhole = (batch.flags[i]! & ChangeFlag.oldIsKey) === 0;
    const after = sent && isBeforeWhole ? { ...before, ...sent } : sent;
    const bytes = batch.oldEnd[i]! - batch.oldStart[i]! + batch.newEnd[i]! - batch.newStart[i]!;
    return { kind: batch.kind[i]!, relation, commitLsn, before, after, bytes };
  });
}

function rowAt(relation: Relation, arena: Uint8Array, from: number, to: number): Row | null {
  if (from === to) return null;
  const values = tupleColumns(arena, from).flatMap(({ length, start, isPacked }, i) => {
    if (length === UNCHANGED_LENGTH) return [];
    const bytes = Buffer.from(arena.subarray(start, start + Math.max(0, length)));
    const text = isPacked ? `\\x${bytes.toString("hex")}` : bytes.toString();
    return [[relation.columns[i]!.name, length < 0 ? null : text] as const];
  });
  return Object.fromEntries(values);
}

/** The rows of a chunk in text form, by their keys. `stop` ends it with its reason. */
export async function decodedRows(chunk: CopyChunk, stop: AbortSignal): Promise<ReadonlyMap<string, Row>> {
  const parser = new CopyTextParser(chunk.table.relation, chunk);
  const batches: (ChangeBatch | null)[] = [];
  for await (const bytes of chunksUntilAborted(chunk.chunks, stop)) batches.push(...parser.push(bytes));
  batches.push(parser.finish());
  const changes = batches.flatMap((batch) => (batch ? decodedChanges(batch) : []));
  return new Map(changes.map(({ relation, after }) => [keyOf(relation, after!), after!]));
}
