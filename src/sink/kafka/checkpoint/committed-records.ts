// What is left of a partition's records when those of aborted transactions are taken away: the last value of each key. Markers in the log
// say what became of a transaction. Pure. https://kafka.apache.org/documentation/#controlbatch

import type { RecordsBatch } from "@platformatic/kafka";

export interface CommittedRecord {
  readonly text: string;
  readonly headers: ReadonlyMap<string, string>;
}

interface Change {
  readonly key: string;
  /** Null: the key is removed. */
  readonly record: CommittedRecord | null;
}

const transactionalFlag = 1 << 4;
const controlFlag = 1 << 5;
const commitMarker = 1;

export class CommittedRecords {
  readonly #values = new Map<string, CommittedRecord>();
  /** Of transactions that are not decided, by producer. */
  readonly #open = new Map<bigint, Change[]>();

  get values(): ReadonlyMap<string, CommittedRecord> {
    return this.#values;
  }

  /** Takes a batch, but for records before `from`: a broker sends batches whole. */
  add(batch: RecordsBatch, from: bigint): void {
    const { attributes, producerId, firstOffset } = batch;
    const records = batch.records.filter(({ offsetDelta }) => firstOffset + BigInt(offsetDelta) >= from);
    if ((attributes & controlFlag) !== 0) {
      for (const { key } of records) this.#decide(producerId, key);
      return;
    }
    const changes = records.map(({ key, value, headers }): Change => {
      const named = [...headers].map(([name, text]) => [String(name), String(text)] as const);
      const record = value === null ? null : { text: value.toString(), headers: new Map(named) };
      return { key: key === null ? "" : key.toString(), record };
    });
    if ((attributes & transactionalFlag) === 0) this.#apply(changes);
    else this.#open.set(producerId, [...(this.#open.get(producerId) ?? []), ...changes]);
  }

  #decide(producerId: bigint, marker: Buffer | null): void {
    if (marker && marker.readInt16BE(2) === commitMarker) this.#apply(this.#open.get(producerId) ?? []);
    this.#open.delete(producerId);
  }

  #apply(changes: readonly Change[]): void {
    for (const { key, record } of changes) {
      if (record) this.#values.set(key, record);
      else this.#values.delete(key);
    }
  }
}
