// Makes batches ready for the line. Their buffers move to the other thread. A view that shares its buffer with something else is copied.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import type { LineBatch } from "./line-messages.ts";

export interface Parcel {
  readonly batch: LineBatch;
  readonly transfer: ArrayBuffer[];
  /** What the batch occupies on its way. */
  readonly bytes: number;
}

/** `batch` with handles in place of relations. The batch must not be used afterwards. */
export function parcel(batch: ChangeBatch, relations: readonly number[]): Parcel {
  const transfer: ArrayBuffer[] = [];
  let bytes = 0;
  const move = <A extends Uint8Array | Uint32Array | Float64Array | BigUint64Array | BigInt64Array>(
    array: A,
  ): A => {
    const whole = array.byteLength === array.buffer.byteLength && array.buffer instanceof ArrayBuffer;
    const own = (whole ? array : array.slice()) as A;
    const { buffer } = own;
    bytes += buffer.byteLength;
    if (buffer instanceof ArrayBuffer && !transfer.includes(buffer)) transfer.push(buffer);
    return own;
  };
  const { transactions } = batch;
  const moved: LineBatch = {
    form: batch.form,
    count: batch.count,
    relations,
    arena: move(batch.arena),
    kind: move(batch.kind),
    flags: move(batch.flags),
    relation: move(batch.relation),
    transaction: move(batch.transaction),
    ordinal: move(batch.ordinal),
    oldStart: move(batch.oldStart),
    oldEnd: move(batch.oldEnd),
    newStart: move(batch.newStart),
    newEnd: move(batch.newEnd),
    ...(batch.changeLsn ? { changeLsn: move(batch.changeLsn) } : {}),
    transactions: {
      count: transactions.count,
      commitLsn: move(transactions.commitLsn),
      endLsn: move(transactions.endLsn),
      commitTimeUs: move(transactions.commitTimeUs),
      xid: move(transactions.xid),
    },
    endsInTransaction: batch.endsInTransaction,
    resumeLsn: batch.resumeLsn,
  };
  return { batch: moved, transfer, bytes };
}

/** Numbers relations, so that each shape passes the line once. Equal shapes have the same number. */
export class RelationHandles {
  readonly #byObject = new WeakMap<Relation, number>();
  readonly #byShape = new Map<string, number>();

  /** The handle, and whether the other end has not heard of it yet. */
  handle(relation: Relation): { readonly handle: number; readonly isNew: boolean } {
    const known = this.#byObject.get(relation);
    if (known !== undefined) return { handle: known, isNew: false };
    const shape = JSON.stringify(relation);
    const same = this.#byShape.get(shape);
    const handle = same ?? this.#byShape.size;
    this.#byShape.set(shape, handle);
    this.#byObject.set(relation, handle);
    return { handle, isNew: same === undefined };
  }
}
