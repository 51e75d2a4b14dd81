// Builds change batches by hand: text tuples, positions and transactions as a source would give them.

import {
  type ChangeBatch,
  ChangeFlag,
  ChangeKind,
  UNCHANGED_LENGTH,
} from "../../../src/change/change-batch.ts";
import { type Checkpoint, isDone } from "../../../src/change/checkpoint.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import type { Relation, ReplicaIdentity, TableShape } from "../../../src/change/relation.ts";

/** A value in text form; null; or `unchanged` for a TOASTed value that was not sent. */
export type TextValue = string | null | typeof unchanged;
export const unchanged = Symbol("unchanged");
export type TextTuple = readonly TextValue[];

export type FixtureChange =
  | { readonly kind: "insert"; readonly relation: Relation; readonly after: TextTuple }
  | {
      readonly kind: "update";
      readonly relation: Relation;
      readonly after: TextTuple;
      readonly before?: TextTuple;
      /** `before` holds only the replica identity's columns. */
      readonly oldIsKey?: boolean;
    }
  | {
      readonly kind: "delete";
      readonly relation: Relation;
      readonly before: TextTuple;
      readonly oldIsKey?: boolean;
    }
  | { readonly kind: "truncate"; readonly relation: Relation };

export interface FixtureTransaction {
  readonly commitLsn: Lsn;
  readonly endLsn: Lsn;
  readonly commitTimeUs: bigint;
  readonly xid: number;
  readonly changes: readonly FixtureChange[];
}

/** A relation of `[name, type OID, type name]` columns. */
export function relation(
  name: string,
  columns: readonly (readonly [name: string, typeOid: number, typeName: string])[],
  options: {
    key?: readonly number[];
    schema?: string;
    replicaIdentity?: ReplicaIdentity;
    id?: number;
    typmod?: number;
  } = {},
): Relation {
  return {
    id: options.id ?? 16_400,
    schema: options.schema ?? "public",
    name,
    replicaIdentity: options.replicaIdentity ?? "default",
    columns: columns.map(([column, typeOid, typeName]) => ({
      name: column,
      number: 0,
      typeOid,
      typmod: options.typmod ?? -1,
      typeName,
      binaryLayout: "same",
      addedValue: null,
    })),
    key: options.key ?? [0],
    withheld: [],
  };
}

/** A transaction whose place and time follow from its number: the same on every call. */
export function transaction(
  number: number,
  changes: readonly FixtureChange[],
  commitTimeUs: bigint = 1_700_000_000_000_000n + BigInt(number) * 1000n,
): FixtureTransaction {
  const commitLsn = lsn(0x1000000n + BigInt(number) * 0x100n);
  return { commitLsn, endLsn: lsn(commitLsn + 0x30n), commitTimeUs, xid: 700 + number, changes };
}

interface Row {
  readonly change: FixtureChange;
  readonly transaction: FixtureTransaction;
  readonly ordinal: number;
}

/**
 * The changes of `transactions` that are not done under `from`, in batches of at most `perBatch` changes,
 * cut anywhere, as a stream that begins at `from` may bring them. `leftOut`: no table that is selected.
 */
export function batches(
  transactions: readonly FixtureTransaction[],
  options: { from?: Checkpoint; perBatch?: number; leftOut?: Relation | null } = {},
): ChangeBatch[] {
  const { from, perBatch = Number.POSITIVE_INFINITY, leftOut } = options;
  const rows: Row[] = transactions.flatMap((each) =>
    each.changes.map((change, ordinal) => ({ change, transaction: each, ordinal })),
  );
  const open = rows.filter(
    ({ change: { relation }, transaction: { commitLsn }, ordinal }) =>
      relation !== leftOut && (!from || !isDone(from, { commitLsn, ordinal })),
  );
  const made: ChangeBatch[] = [];
  for (let start = 0; start < open.length; start += perBatch) {
    const end = Math.min(start + perBatch, open.length);
    made.push(batchOf(open.slice(start, end), open[end]?.transaction ?? null));
  }
  return made;
}

/** `next`: the transaction of the change behind the batch. */
function batchOf(rows: readonly Row[], next: FixtureTransaction | null): ChangeBatch {
  const relations = [...new Set(rows.map(({ change }) => change.relation))];
  const transactions = [...new Set(rows.map((row) => row.transaction))];
  const last = transactions[transactions.length - 1]!;
  const endsInTransaction = next === last;
  const tuples: Uint8Array[] = [];
  let length = 0;
  const write = (tuple: TextTuple | undefined): [number, number] => {
    if (!tuple) return [0, 0];
    const start = length;
    const bytes = tupleBytes(tuple);
    tuples.push(bytes);
    length += bytes.length;
    return [start, length];
  };
  const spans = rows.map(({ change }) => ({
    old: write("before" in change ? change.before : undefined),
    new: write("after" in change ? change.after : undefined),
  }));
  return {
    form: "text",
    count: rows.length,
    relations,
    arena: new Uint8Array(Buffer.concat(tuples)),
    kind: Uint8Array.from(rows, ({ change }) => ChangeKind[change.kind]),
    flags: Uint8Array.from(rows, ({ change }) => flagsOf(change)),
    relation: Uint32Array.from(rows, ({ change }) => relations.indexOf(change.relation)),
    transaction: Uint32Array.from(rows, (row) => transactions.indexOf(row.transaction)),
    ordinal: Uint32Array.from(rows, ({ ordinal }) => ordinal),
    oldStart: Uint32Array.from(spans, ({ old }) => old[0]),
    oldEnd: Uint32Array.from(spans, ({ old }) => old[1]),
    newStart: Uint32Array.from(spans, (span) => span.new[0]),
    newEnd: Uint32Array.from(spans, (span) => span.new[1]),
    transactions: {
      count: transactions.length,
      commitLsn: BigUint64Array.from(transactions, ({ commitLsn }) => commitLsn),
      endLsn: BigUint64Array.from(transactions, (each) =>
        each === last && endsInTransaction ? 0n : each.endLsn,
      ),
      commitTimeUs: BigInt64Array.from(transactions, ({ commitTimeUs }) => commitTimeUs),
      xid: Uint32Array.from(transactions, ({ xid }) => xid),
    },
    endsInTransaction,
    resumeLsn: endsInTransaction ? lsn(transactions[transactions.length - 2]?.endLsn ?? 0n) : last.endLsn,
  };
}

function flagsOf(change: FixtureChange): number {
  const oldIsKey = "oldIsKey" in change && change.oldIsKey ? ChangeFlag.oldIsKey : 0;
  const hasUnchanged = "after" in change && change.after.includes(unchanged) ? ChangeFlag.hasUnchanged : 0;
  return oldIsKey | hasUnchanged;
}

/** A tuple in the arena's layout. */
export function tupleBytes(tuple: TextTuple): Uint8Array {
  const parts: Buffer[] = [Buffer.from([tuple.length >> 8, tuple.length & 255])];
  for (const value of tuple) {
    const length = Buffer.alloc(4);
    if (value === null) length.writeInt32BE(-1);
    else if (value === unchanged) length.writeInt32BE(UNCHANGED_LENGTH);
    else length.writeInt32BE(Buffer.byteLength(value));
    parts.push(length);
    if (typeof value === "string") parts.push(Buffer.from(value));
  }
  return Buffer.concat(parts);
}

/** Of a table that nothing else is known of. */
export function tableShape(relation: Relation): TableShape {
  const facts = { isPartitioned: false, estimatedRows: 0, estimatedBytes: 0, storage: "1" };
  return { relation, primaryKey: relation.key.map((i) => relation.columns[i]!.name), notNull: [], ...facts };
}
