// Messages that brokers have refused as too large. A round that has one fails as a whole, and the run connects anew: then the row comes again,
// and is parked. So what was refused is in the state, where requests of webhooks are that were cut: a fact that outlives the run. It is
// forgotten once the row is parked, as that is known from then on. A parked message whose retry is refused is held: until the retry has been gone
// through, it is sent only where it was asked for itself.

import type { Position } from "../../../change/checkpoint.ts";
import type { ParkingStore } from "../../delivery/parking/parking-store.ts";
import { changePoint, comparePlace, endPoint, type RowPoint } from "../../delivery/parking/row-place.ts";

/** The row of a message that brokers may refuse. */
export interface MessageRow {
  /** What `rowName` says. */
  readonly name: string;
  /** Of key and value. */
  readonly bytes: number;
  /** Of the change; null: it is of a copy, which may come again at any time. */
  readonly position: Position | null;
  readonly version: number;
  /** It was parked under this id, and is sent again. Null: it was not. */
  readonly parkedId: string | null;
}

interface Refusal {
  readonly reason: string;
  /** Of the message. A row of a copy may be smaller when it is read again, however much later that is. Zero: any is refused. */
  readonly bytes: number;
  readonly lastPlace: bigint;
  readonly isHold: boolean;
}

/** Marks a hold in the state. */
const held = "held";

export class RefusedRecords {
  /** By name; holds by the ids of their messages. */
  readonly #refusals = new Map<string, Refusal>();

  constructor(private readonly store: Pick<ParkingStore, "cuts" | "cut" | "uncut">) {}

  /** What earlier sessions were told. */
  async load(): Promise<void> {
    for (let after: string | null | undefined; after !== null; ) {
      const page = await this.store.cuts(after ?? null);
      for (const { key, parts, maxPlace: lastPlace } of page.cuts) {
        const [reason = "", mark] = parts;
        const isHold = mark === held;
        const bytes = isHold ? 0 : Number(mark ?? 0);
        // Earlier versions have named them otherwise: brokers refuse these once more.
        if (parts.length <= 2) this.#refusals.set(key, { reason, bytes, lastPlace, isHold });
      }
      after = page.next;
    }
  }

  get isEmpty(): boolean {
    return this.#refusals.size === 0;
  }

  /** It is durable on return. */
  async add({ name, bytes, position, version }: MessageRow, reason: string): Promise<void> {
    // The state keeps the first one.
    await this.forget([name]);
    await this.#add(name, position ? changePoint(position, version) : endPoint, {
      reason,
      bytes,
      isHold: false,
    });
  }

  /** A retry of the parked message was refused. It is durable on return. */
  async hold(id: string, reason: string): Promise<void> {
    // At the message's own place, which the stream has mostly passed, the hold would be forgotten at once.
    await this.#add(id, endPoint, { reason, bytes: 0, isHold: true });
  }

  /** All that was asked for was tried. */
  async release(): Promise<void> {
    await this.forget([...this.#refusals].flatMap(([name, { isHold }]) => (isHold ? [name] : [])));
  }

  /** Why a message of the row with so many bytes, or fewer, was refused; null: none was. */
  reasonOf(name: string, bytes: number): string | null {
    const refusal = this.#refusals.get(name);
    return refusal && !refusal.isHold && refusal.bytes <= bytes ? refusal.reason : null;
  }

  /** The parked message is not to go along with others. */
  isHeld(id: string): boolean {
    return this.#refusals.has(id);
  }

  /** They are parked, durably, or are refused anew. */
  async forget(names: readonly string[]): Promise<void> {
    const known = names.filter((name) => this.#refusals.delete(name));
    if (known.length > 0) await this.store.uncut(known);
  }

  async #add(key: string, { place, version }: RowPoint, refusal: Omit<Refusal, "lastPlace">): Promise<void> {
    this.#refusals.set(key, { ...refusal, lastPlace: place });
    const { reason, bytes, isHold } = refusal;
    const parts = [reason, isHold ? held : String(bytes)];
    await this.store.cut({ key, parts, maxPlace: place, maxVersion: version, isOfCopy: false });
  }

  /** Rows of the stream up to there never come again. */
  passed(point: RowPoint): void {
    for (const [name, { lastPlace }] of this.#refusals)
      if (comparePlace(lastPlace, point) <= 0) this.#refusals.delete(name);
  }
}
