// What a memory sink holds, and what becomes of it: pure functions over tables. Each row is as of a place in the log. What is from before that
// place is left out, be it a change or a copied row.

import { ChangeKind } from "../../src/change/change-batch.ts";
import type { Checkpoint } from "../../src/change/checkpoint.ts";
import { isStillCopyOf } from "../../src/change/copy-fingerprint.ts";
import type { RowKey } from "../../src/change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../src/change/lsn.ts";
import type { PageRange } from "../../src/change/page-range.ts";
import { qualifiedName, type Relation, type TableShape } from "../../src/change/relation.ts";
import { untilAborted } from "../../src/change/until-aborted.ts";
import type { CopyChunk, CopyMode } from "../../src/sink/copy-sink.ts";
import type { SetAsideTable, SinkEvents } from "../../src/sink/sink-events.ts";
import type { DecodedChange, Row } from "./decoded-changes.ts";

interface HeldRow {
  /** Null: there is none, or nothing is known of it. */
  readonly row: Row | null;
  readonly asOf: Lsn;
  /** The stream brought only a part of it. */
  readonly isIncomplete: boolean;
}

/** A copy that was begun. */
export interface BegunCopy {
  readonly mark: string;
  readonly done: (PageRange & { readonly rows: number })[];
  /** Of its chunks. */
  readonly points: Lsn[];
}

export interface HeldTable {
  shape: TableShape;
  /** By their keys, as JSON. Rows without a key have one that means nothing. */
  readonly rows: Map<string, HeldRow>;
  /** The point of the copy that counts; null: none does. */
  copiedAt: Lsn | null;
  copy: BegunCopy | null;
  setAside: SetAsideTable | null;
}

export interface Held {
  checkpoint: Checkpoint | null;
  /** By their OIDs. */
  readonly tables: Map<number, HeldTable>;
}

/** Outlives the sinks over it. */
export class MemoryStore {
  held: Held = { checkpoint: null, tables: new Map() };
  /** Runs before each change. */
  admit: () => Promise<void> = async () => {};
  /** Throws where a row is refused. */
  check: (change: DecodedChange) => void = () => {};

  /** Makes a change as a whole, or, where it throws, not at all. `signal` ends the waiting for it. */
  async change<T>(apply: (held: Held) => T, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    return await untilAborted(this.#change(apply), signal);
  }

  async #change<T>(apply: (held: Held) => T): Promise<T> {
    await this.admit();
    const next = structuredClone(this.held);
    const result = apply(next);
    this.held = next;
    return result;
  }
}

/** The tables as they are now. A copy of another table, and one that missed changes, counts no more. */
export function takeIn(tables: Map<number, HeldTable>, shapes: readonly TableShape[]): void {
  const byId = new Map(shapes.map((shape) => [shape.relation.id, shape]));
  for (const [id, table] of tables) {
    const shape = byId.get(id);
    if (!isStillCopyOf(table.shape, shape)) tables.set(id, lost(table));
    if (shape) tables.get(id)!.shape = shape;
  }
  const isLacking = ({ relation: { id } }: TableShape) => !tables.has(id);
  for (const shape of shapes.filter(isLacking)) {
    const name = qualifiedName(shape.relation);
    const former = tables.values().find((table) => qualifiedName(table.shape.relation) === name);
    if (former) tables.delete(former.shape.relation.id);
    tables.set(shape.relation.id, { ...lost(former ?? { rows: new Map() }), shape });
  }
}

/** The rows stay, until a copy takes their place. */
function lost<T extends Pick<HeldTable, "rows">>(table: T) {
  const rows = [...table.rows].map(
    ([key, { row }]) => [key, { row, asOf: zeroLsn, isIncomplete: false }] as const,
  );
  return { ...table, rows: new Map(rows), copiedAt: null, copy: null, setAside: null };
}

export function applyChange(
  table: HeldTable,
  { kind, relation, commitLsn, before, after }: DecodedChange,
): void {
  const { rows, copiedAt, shape, setAside } = table;
  const isKeyed = relation.key.length > 0;
  if (setAside || (!isKeyed && copiedAt !== null && commitLsn < copiedAt)) return;
  const isTruncate = kind === ChangeKind.truncate;
  const names = ({ columns }: Relation) => columns.map(({ name }) => name).join();
  if (isTruncate || names(relation) !== names(shape.relation)) table.copy = null;
  const isOld = (key: string) => (rows.get(key)?.asOf ?? zeroLsn) <= commitLsn;
  if (isTruncate) for (const key of [...rows.keys()].filter(isOld)) rows.delete(key);
  const from = before && (isKeyed ? keyOf(relation, before) : keyOfSame(rows, before));
  const to = after && keyOf(relation, after);
  const known = rows.get(from ?? to ?? "");
  const base = known && known.asOf <= commitLsn ? known : null;
  if (from && isOld(from)) rows.set(from, { row: null, asOf: commitLsn, isIncomplete: false });
  if (!to || !isOld(to)) return;
  const isWhole = relation.columns.every(({ name }) => name in after);
  const isIncomplete =
    !isWhole && (base === null || base.row === null || base.isIncomplete || table.copy !== null);
  const row = isWhole ? after : base?.row ? { ...base.row, ...after } : null;
  rows.set(to, { row, asOf: commitLsn, isIncomplete });
}

export function takeChunk(
  table: HeldTable,
  copy: BegunCopy,
  { part, lsn: asOf }: CopyChunk,
  rows: readonly Row[],
): void {
  const { relation } = table.shape;
  if (relation.key.length === 0) table.rows.clear();
  for (const row of rows) putAsOf(table, keyOf(relation, row), row, asOf);
  if (part?.kind === "range") copy.done.push({ ...part.range, rows: rows.length });
  copy.points.push(asOf);
}

/** Puts the rows over those of the keys; where there is none, nothing is left of it. */
export function takeKeys(table: HeldTable, keys: readonly RowKey[], rows: readonly Row[], asOf: Lsn): void {
  const found = new Map(rows.map((row) => [keyOf(table.shape.relation, row), row]));
  for (const key of keys.map((each) => JSON.stringify(each)))
    putAsOf(table, key, found.get(key) ?? null, asOf);
  if (table.copiedAt !== null && asOf > table.copiedAt) table.copiedAt = asOf;
}

/** All chunks are there, and no row is incomplete: the copy counts. */
export function endCopy(table: HeldTable, { points }: BegunCopy, mode: CopyMode): void {
  const inOrder = points.toSorted((a, b) => (a < b ? -1 : 1));
  const [first = zeroLsn, last = first] = [inOrder[0], inOrder.at(-1)];
  if (mode !== "merge")
    for (const [key, { asOf }] of [...table.rows]) if (asOf < first) table.rows.delete(key);
  if (table.copiedAt === null || last > table.copiedAt) table.copiedAt = last;
  table.copy = null;
  table.setAside = null;
}

/** Tells the run what it is to know of the tables, behind a batch or between two. */
export function tell({ checkpoint, tables }: Held, events: SinkEvents, isBehindBatch: boolean): void {
  events.setAside([...tables.values()].flatMap(({ setAside }) => setAside ?? []));
  for (const table of tables.values()) {
    if (table.copiedAt === null || checkpoint === null || incompleteKeys(table).length === 0) continue;
    if (table.copiedAt > checkpoint.resumeLsn) events.awaits(table.copiedAt);
    else if (isBehindBatch) events.mended();
  }
}

export function incompleteKeys({ rows }: HeldTable): readonly RowKey[] {
  return [...rows].flatMap(([key, { isIncomplete }]): RowKey[] => (isIncomplete ? [JSON.parse(key)] : []));
}

function putAsOf({ rows }: HeldTable, key: string, row: Row | null, asOf: Lsn): void {
  if ((rows.get(key)?.asOf ?? -1n) < asOf) rows.set(key, { row, asOf, isIncomplete: false });
}

function keyOf({ key, columns }: Relation, row: Row): string {
  return key.length > 0 ? JSON.stringify(key.map((i) => row[columns[i]!.name])) : Bun.randomUUIDv7();
}

function keyOfSame(rows: HeldTable["rows"], row: Row): string | null {
  for (const [key, held] of rows) if (Bun.deepEquals(held.row, row)) return key;
  return null;
}
