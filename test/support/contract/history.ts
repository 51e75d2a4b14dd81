// What the contract suites carry: two tables, a history of their changes that is the same for the same seed, and what a target holds
// when it has a part of it.

import { type Checkpoint, isDone } from "../../../src/change/checkpoint.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import type { Relation, TableShape } from "../../../src/change/relation.ts";
import {
  type FixtureChange,
  type FixtureTransaction,
  relation,
  tableShape,
  transaction,
  unchanged,
} from "../rows/batch-fixture.ts";

/** A row of either table, and of either target. */
export interface ContractRow {
  readonly id: number;
  readonly v: string;
}

export type TableName = "accounts" | "entries";
export type ContractRows = Readonly<Record<TableName, readonly ContractRow[]>>;

/** The bytes of its values mean something at the source only: any sink takes it as text, which is what is made here by hand. */
function table(name: TableName, id: number, key: readonly number[]): Relation {
  const made = relation(
    name,
    [
      ["id", 23, "integer"],
      ["v", 25, "text"],
    ],
    { id, key },
  );
  return { ...made, columns: made.columns.map((column) => ({ ...column, binaryLayout: null })) };
}

/** Its rows are inserted, updated, deleted, and get other keys. */
export const accounts: TableShape = tableShape(table("accounts", 16_400, [0]));
/** It has no key, and only grows: what comes twice is there twice. */
export const entries: TableShape = tableShape(table("entries", 16_500, []));
export const contractTables: readonly TableShape[] = [accounts, entries];

/** Where the stream begins: before every transaction. */
export const beginning: Checkpoint = {
  resumeLsn: lsn(0x1000000n),
  partial: null,
  lastVersion: 1_600_000_000_000_000n,
  log: "the first log",
};

export function insert({ relation: of }: TableShape, id: number, v = `v${id}`): FixtureChange {
  return { kind: "insert", relation: of, after: [String(id), v] };
}

export function update(id: number, v: string | typeof unchanged): FixtureChange {
  return { kind: "update", relation: accounts.relation, after: [String(id), v] };
}

export function remove(id: number): FixtureChange {
  return { kind: "delete", relation: accounts.relation, before: [String(id), null], oldIsKey: true };
}

function move(id: number, to: number, v: string): FixtureChange {
  const before = [String(id), null];
  return { kind: "update", relation: accounts.relation, before, oldIsKey: true, after: [String(to), v] };
}

/** A small generator of repeatable numbers in [0, 1) (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** One number after the other, from 1 on, each a little above the last: at no fixed distance, which a sink's own steps may share. */
export function risingSteps(seed: number, mostApart = 3): () => number {
  const random = seeded(seed);
  let last = 0;
  return () => {
    last += 1 + Math.floor(random() * mostApart);
    return last;
  };
}

/** Transactions of random sizes: changes of few accounts, again and again, and an entry with each. */
export function history(seed: number, count: number): readonly FixtureTransaction[] {
  const random = seeded(seed);
  const upTo = (most: number) => Math.floor(random() * most);
  const there = new Set<number>();
  let n = 0;
  const changeOf = (id: number): FixtureChange => {
    if (!there.has(id)) {
      there.add(id);
      return insert(accounts, id, `v${n}`);
    }
    const kind = random();
    if (kind < 0.5) return update(id, `v${n}`);
    there.delete(id);
    const to = upTo(8);
    if (kind < 0.75 || there.has(to) || to === id) return remove(id);
    there.add(to);
    return move(id, to, `v${n}`);
  };
  return Array.from({ length: count }, (_, i) => {
    const size = random() < 0.2 ? 12 : 1 + upTo(3);
    const pairs = Array.from({ length: size }, () => {
      n++;
      return [changeOf(upTo(8)), insert(entries, n)];
    });
    return transaction(i + 1, pairs.flat());
  });
}

/** Entries alone, in transactions of one and of three. */
export const growth: readonly FixtureTransaction[] = Array.from({ length: 20 }, (_, i) => {
  const ids = i % 4 === 3 ? [i * 10, i * 10 + 1, i * 10 + 2] : [i * 10];
  const changes = ids.map((id) => insert(entries, id));
  return transaction(i + 1, changes);
});

/** What these changes leave of both tables, sorted as a target is read. */
export function rowsAfter(transactions: readonly FixtureTransaction[], under?: Checkpoint): ContractRows {
  const held = new Map<number, ContractRow>();
  const all: ContractRow[] = [];
  for (const { changes, commitLsn } of transactions) {
    for (const [ordinal, change] of changes.entries()) {
      if (under && !isDone(under, { commitLsn, ordinal })) continue;
      const [id, v] = "after" in change ? change.after : [];
      const from = "before" in change && change.before ? Number(change.before[0]) : Number(id);
      const value = v === unchanged ? held.get(from)?.v : v;
      const after = id === undefined ? null : { id: Number(id), v: String(value) };
      if (change.relation.name === "entries" && after) all.push(after);
      if (change.relation.name !== "accounts") continue;
      if (change.kind === "truncate") held.clear();
      if ("before" in change && change.before) held.delete(from);
      if (after) held.set(after.id, after);
    }
  }
  return { accounts: sorted([...held.values()]), entries: sorted(all) };
}

export function sorted(rows: readonly ContractRow[]): readonly ContractRow[] {
  return rows.toSorted((a, b) => a.id - b.id || (a.v < b.v ? -1 : Number(a.v > b.v)));
}

/** Behind so many transactions: a point that a copy may be as of. */
export function pointBehind(count: number): { readonly lsn: Lsn; readonly timeUs: bigint } {
  if (count === 0) return { lsn: beginning.resumeLsn, timeUs: beginning.lastVersion };
  const { endLsn, commitTimeUs } = transaction(count, []);
  return { lsn: endLsn, timeUs: commitTimeUs + 1n };
}

/** `1:a 2:b`: a row for each id and its value. */
export function rowsOf(text: string): readonly ContractRow[] {
  return text.split(" ").map((pair) => ({ id: Number(pair.split(":")[0]), v: pair.split(":")[1] ?? "" }));
}
