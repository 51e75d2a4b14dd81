// Counts the stream's changes by table. One pass over a batch's relation numbers: it makes an object for each table of a batch, and none for a row.

import { type ChangeBatch, ChangeKind } from "../change/change-batch.ts";

/** Changes of one table. */
export interface ChangeCount {
  changes: number;
  /** Commit time of the last one, in microseconds since 1970-01-01 UTC; 0: not known. */
  lastCommitUs: bigint;
}

/** By the table's OID. */
export type ChangeCounts = Map<number, ChangeCount>;

export function addCounts(to: ChangeCounts, from: ChangeCounts): void {
  for (const [id, { changes, lastCommitUs }] of from) add(to, id, changes, lastCommitUs);
}

function add(to: ChangeCounts, id: number, changes: number, lastCommitUs: bigint): void {
  const before = to.get(id);
  if (!before) to.set(id, { changes, lastCommitUs });
  else {
    before.changes += changes;
    if (lastCommitUs > 0n) before.lastCommitUs = lastCommitUs;
  }
}

/** The changes of one batch. A shape is no change of a row. */
export function countChanges(batch: ChangeBatch): ChangeCounts {
  const { count, kind, relation, relations, transaction, transactions } = batch;
  const changes = new Uint32Array(relations.length);
  const last = new Uint32Array(relations.length);
  for (let i = 0; i < count; i++) {
    if (kind[i] === ChangeKind.shape) continue;
    const at = relation[i]!;
    changes[at]!++;
    last[at] = i;
  }
  const counts: ChangeCounts = new Map();
  // A table whose shape changes within the batch is there once for each shape, in the order of the stream.
  for (const [at, { id }] of relations.entries()) {
    if (changes[at] === 0) continue;
    add(counts, id, changes[at]!, transactions.commitTimeUs[transaction[last[at]!]!]!);
  }
  return counts;
}

/** The changes of committed transactions. */
export class CommittedChanges {
  /** Of transactions in progress, by xid. */
  readonly #open = new Map<number, ChangeCounts>();

  /** Counts the batch. Returns what counts by now, which may include earlier parts of a transaction; null: nothing new does. */
  count(batch: ChangeBatch): ChangeCounts | null {
    const { count, inProgress } = batch;
    if (!inProgress) return count > 0 ? countChanges(batch) : null;
    const { xid, outcome } = inProgress;
    const counts = this.#open.get(xid) ?? new Map();
    this.#open.delete(xid);
    if (outcome === "aborted") return null;
    addCounts(counts, countChanges(batch));
    if (outcome === "committed") return withOneCommit(counts, batch);
    this.#open.set(xid, counts);
    return null;
  }
}

/** Only the last part of a transaction in progress knows when it was committed, unless it is empty. */
function withOneCommit(counts: ChangeCounts, { count, transactions }: ChangeBatch): ChangeCounts {
  const commitUs = count > 0 ? transactions.commitTimeUs[0]! : 0n;
  if (commitUs > 0n) for (const each of counts.values()) each.lastCommitUs = commitUs;
  return counts;
}
