// Messages that brokers have refused as too large. A round that has one fails as a whole, and the run connects anew: then the row comes again,
// and is parked. So what was refused is in the state, where requests of webhooks are that were cut: a fact that outlives the run.

import type { RequestCut } from "../../../connector/parking.ts";
import type { ParkingStore } from "../../delivery/parking/parking-store.ts";

export interface KafkaRecord {
  readonly topic: string;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
}

export class RefusedRecords {
  /** Why, by name. */
  readonly #reasons = new Map<string, string>();
  /** Smaller ones need not be looked at. */
  #leastBytes = Number.POSITIVE_INFINITY;
  /** Ids of parked messages that a retry has sent, by name. */
  readonly #sentAgain = new Map<string, string>();

  constructor(private readonly store: Pick<ParkingStore, "cuts" | "cut">) {}

  /** What earlier sessions were told. */
  async load(): Promise<void> {
    for (let after: string | null | undefined; after !== null; ) {
      const page = await this.store.cuts(after ?? null);
      for (const { parts } of page.cuts) {
        const [name = "", bytes = "", reason = ""] = parts;
        this.#keep(name, Number(bytes), reason);
      }
      after = page.next;
    }
  }

  /** It is durable on return. */
  async add(record: KafkaRecord, reason: string): Promise<void> {
    const name = nameOf(record);
    const bytes = bytesOf(record);
    this.#keep(name, bytes, reason);
    await this.store.cut({
      ...{ key: uuidOf(name), parts: [name, String(bytes), reason] },
      // It is forgotten with its age.
      ...{ maxVersion: Number.MAX_SAFE_INTEGER, isOfCopy: false },
    } satisfies RequestCut);
  }

  /** Why a message of the stream was refused; null: it was not. */
  reasonOf(record: KafkaRecord): string | null {
    return bytesOf(record) < this.#leastBytes ? null : (this.#reasons.get(nameOf(record)) ?? null);
  }

  /** The message of this id is sent again. */
  sendsAgain(record: KafkaRecord, id: string): void {
    this.#sentAgain.set(nameOf(record), id);
  }

  /** Null: no retry has sent it. */
  sentAgain(record: KafkaRecord): string | null {
    return this.#sentAgain.get(nameOf(record)) ?? null;
  }

  /** Brokers have taken the parked messages of these ids. */
  taken(ids: readonly string[]): void {
    const taken = new Set(ids);
    for (const [name, id] of this.#sentAgain) if (taken.has(id)) this.#sentAgain.delete(name);
  }

  #keep(name: string, bytes: number, reason: string): void {
    this.#reasons.set(name, reason);
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
  }
}

function bytesOf({ key, value }: KafkaRecord): number {
  return (key?.length ?? 0) + (value?.length ?? 0);
}

/** Debezium's messages end with the time at which they were made, which has as many bytes the next time. */
const changingBytes = 128;

function nameOf({ topic, key, value }: KafkaRecord): string {
  const lengths = `${topic}\0${key?.length ?? -1}\0${value?.length ?? -1}\0`;
  const hash = new Bun.CryptoHasher("sha256").update(lengths);
  if (key) hash.update(key);
  if (value) hash.update(value.subarray(0, Math.max(0, value.length - changingBytes)));
  return hash.digest("hex");
}

function uuidOf(name: string): string {
  return name.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
