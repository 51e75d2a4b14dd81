// Counts the stream's changes by table. One pass over a batch's relation numbers: it makes an object for each table, and none for a row.

import { type ChangeBatch, ChangeKind, type InProgress } from "../change/change-batch.ts";

/** Changes of one table. */
export interface ChangeCount {
  changes: number;
  /** Commit time of the last one, in microseconds since 1970-01-01 UTC; 0: not known. */
  lastCommitUs: bigint;
}

/** By the table's OID. */
type ChangeCounts = Map<number, ChangeCount>;

/** The changes of committed transactions. */
export class ChangeCounter {
  readonly #committed: ChangeCounts = new Map();
  /** Of transactions in progress, by xid. */
  readonly #open = new Map<number, ChangeCounts>();

  /**
   * Counts the batch from the change `first` on; null: it completes a transaction in progress that was counted before. `changed` is called with
   * the OID of each table whose count has changed.
   */
  count(batch: ChangeBatch, changed: (id: number) => void, first: number | null = 0): void {
    const { inProgress } = batch;
    if (first === null) this.#open.delete(inProgress?.xid ?? 0);
    else if (inProgress) this.#countPart(batch, inProgress, changed);
    else countChanges(batch, this.#committed, changed, first);
  }

  of(id: number): ChangeCount {
    return this.#committed.get(id) ?? none;
  }

  forget(id: number): void {
    this.#committed.delete(id);
  }

  #countPart(batch: ChangeBatch, { xid, outcome }: InProgress, changed: (id: number) => void): void {
    const counts: ChangeCounts = this.#open.get(xid) ?? new Map();
    this.#open.delete(xid);
    if (outcome === "aborted") return;
    countChanges(batch, counts, () => {});
    if (outcome === "open") this.#open.set(xid, counts);
    else this.#commit(counts, batch, changed);
  }

  /** Only the last part of a transaction in progress knows when it was committed, unless it is empty. */
  #commit(counts: ChangeCounts, { count, transactions }: ChangeBatch, changed: (id: number) => void): void {
    const commitUs = count > 0 ? transactions.commitTimeUs[0]! : 0n;
    for (const [id, { changes, lastCommitUs }] of counts) {
      add(this.#committed, id, changes, commitUs > 0n ? commitUs : lastCommitUs);
      changed(id);
    }
  }
}

const none: ChangeCount = { changes: 0, lastCommitUs: 0n };

function countChanges(batch: ChangeBatch, to: ChangeCounts, changed: (id: number) => void, first = 0): void {
  const { relations, transaction, transactions } = batch;
  const changes = new Uint32Array(relations.length);
  const last = new Uint32Array(relations.length);
  countByRelation(batch, changes, last, first);
  // A table whose shape changes within the batch is there once for each shape, in the order of the stream.
  for (let at = 0; at < relations.length; at++) {
    if (changes[at] === 0) continue;
    const { id } = relations[at]!;
    add(to, id, changes[at]!, transactions.commitTimeUs[transaction[last[at]!]!]!);
    changed(id);
  }
}

/** Of each relation, its changes and the index of the last one. A shape is no change of a row. */
function countByRelation(
  { count, kind, relation }: ChangeBatch,
  changes: Uint32Array,
  last: Uint32Array,
  first: number,
): void {
  const hasShapes = kind.subarray(0, count).includes(ChangeKind.shape);
  for (let i = first; i < count; ) {
    const from = i;
    const at = relation[i]!;
    // Changes of one table mostly come one after the other.
    do i++;
    while (!hasShapes && i < count && relation[i] === at);
    if (hasShapes && kind[from] === ChangeKind.shape) continue;
    changes[at]! += i - from;
    last[at] = i - 1;
  }
}

function add(to: ChangeCounts, id: number, changes: number, lastCommitUs: bigint): void {
  const before = to.get(id);
  if (!before) to.set(id, { changes, lastCommitUs });
  else {
    before.changes += changes;
    if (lastCommitUs > 0n) before.lastCommitUs = lastCommitUs;
  }
}
