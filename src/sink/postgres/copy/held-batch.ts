// Some changes of a batch as bytes, and as a batch again: what is kept of a table's changes until they can be applied. Pure.

import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import { lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";

/** Everything but the tuples. Of a TRUNCATE `to` is the statement's number. */
interface Head {
  readonly form: ChangeBatch["form"];
  readonly relations: readonly Relation[];
  readonly endsInTransaction: boolean;
  readonly resumeLsn: string;
  /** By change: kind, flags, relation, transaction, ordinal, bytes of the old tuple, bytes of the new one. */
  readonly changes: readonly (readonly number[])[];
  /** By transaction: commit LSN, LSN behind it, commit time, xid. */
  readonly transactions: readonly (readonly string[])[];
}

/** The changes of these indexes. */
export function encodeHeld(batch: ChangeBatch, indexes: readonly number[]): Buffer {
  const used = [...new Set(indexes.map((i) => batch.transaction[i]!))];
  const relations = [...new Set(indexes.map((i) => batch.relation[i]!))];
  const tuples: Uint8Array[] = [];
  const changes = indexes.map((i) => {
    const isTruncate = batch.kind[i] === ChangeKind.truncate;
    const old = batch.arena.subarray(batch.oldStart[i]!, batch.oldEnd[i]!);
    const [from, to] = [batch.newStart[i]!, batch.newEnd[i]!];
    tuples.push(old);
    if (!isTruncate) tuples.push(batch.arena.subarray(from, to));
    return [
      ...[batch.kind[i]!, batch.flags[i]!, relations.indexOf(batch.relation[i]!)],
      ...[used.indexOf(batch.transaction[i]!), batch.ordinal[i]!, old.length, isTruncate ? from : to - from],
    ];
  });
  const { commitLsn, endLsn, commitTimeUs, xid } = batch.transactions;
  const head: Head = {
    form: batch.form,
    relations: relations.map((at) => batch.relations[at]!),
    endsInTransaction: batch.endsInTransaction,
    resumeLsn: String(batch.resumeLsn),
    changes,
    transactions: used.map((at) => [commitLsn[at]!, endLsn[at]!, commitTimeUs[at]!, xid[at]!].map(String)),
  };
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, json, ...tuples]);
}

export function decodeHeld(bytes: Buffer): ChangeBatch {
  const end = 4 + bytes.readUInt32BE();
  const head = JSON.parse(bytes.toString("utf8", 4, end)) as Head;
  const { changes, transactions, resumeLsn, ...rest } = head;
  const field = (at: number) => changes.map((change) => change[at]!);
  const places: Record<"oldStart" | "oldEnd" | "newStart" | "newEnd", number[]> = {
    ...{ oldStart: [], oldEnd: [], newStart: [], newEnd: [] },
  };
  let at = 0;
  for (const [kind, , , , , old = 0, to = 0] of changes) {
    places.oldStart.push(at);
    at += old;
    places.oldEnd.push(at);
    places.newStart.push(kind === ChangeKind.truncate ? to : at);
    if (kind !== ChangeKind.truncate) at += to;
    places.newEnd.push(kind === ChangeKind.truncate ? 0 : at);
  }
  const column = (i: number) => transactions.map((values) => BigInt(values[i]!));
  return {
    ...rest,
    resumeLsn: lsn(BigInt(resumeLsn)),
    count: changes.length,
    arena: new Uint8Array(bytes.subarray(end)),
    kind: Uint8Array.from(field(0)),
    flags: Uint8Array.from(field(1)),
    relation: Uint32Array.from(field(2)),
    transaction: Uint32Array.from(field(3)),
    ordinal: Uint32Array.from(field(4)),
    oldStart: Uint32Array.from(places.oldStart),
    oldEnd: Uint32Array.from(places.oldEnd),
    newStart: Uint32Array.from(places.newStart),
    newEnd: Uint32Array.from(places.newEnd),
    transactions: {
      count: transactions.length,
      commitLsn: BigUint64Array.from(column(0)),
      endLsn: BigUint64Array.from(column(1)),
      commitTimeUs: BigInt64Array.from(column(2)),
      xid: Uint32Array.from(transactions.map((values) => Number(values[3]))),
    },
  };
}
