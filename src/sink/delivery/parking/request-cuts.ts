// How requests were cut that may come again. Those of the stream are held until the checkpoint has passed them. Those of copies may come
// again for as long as their copy is not made, and may be many: of them a hash is held, and the rest is found in the state when it is needed.

import { partRows, partText, type RequestCut } from "../../../connector/parking.ts";
import { HashSet } from "../hash-set.ts";
import type { ParkingStore } from "./parking-store.ts";
import { lastPoint, partsOf, type RowsRequest } from "./request-parts.ts";
import { comparePlace, type RowPoint } from "./row-place.ts";

export class RequestCuts {
  readonly #ofStream = new Map<string, RequestCut>();
  #ofCopies = new HashSet();

  constructor(private readonly store: Pick<ParkingStore, "cuts" | "findCut" | "cut">) {}

  get isEmpty(): boolean {
    return this.#ofStream.size === 0 && this.#ofCopies.size === 0;
  }

  /** What earlier runs have cut. */
  async load(): Promise<void> {
    let after: string | null = null;
    do {
      const page = await this.store.cuts(after);
      for (const cut of page.cuts) this.#ofStream.set(cut.key, cut);
      for (const key of page.ofCopies) this.#ofCopies.add(hashOf(key));
      after = page.next;
    } while (after !== null);
  }

  /** Whether it was cut. By chance also of a request of a copy that was not. */
  has(key: string): boolean {
    return this.#ofStream.has(key) || this.#ofCopies.has(hashOf(key));
  }

  /** The parts that it was cut into; null: it was not. */
  async partsOf(request: RowsRequest): Promise<readonly RowsRequest[] | null> {
    const { idempotencyKey: key } = request;
    const cut =
      this.#ofStream.get(key) ?? (this.#ofCopies.has(hashOf(key)) ? await this.store.findCut(key) : null);
    return cut && partsOf(request, cut.parts.map(partRows));
  }

  /** Cuts it. That is durable on return. */
  async cut(request: RowsRequest, parts: readonly (readonly number[])[]): Promise<readonly RowsRequest[]> {
    const { isOfCopy } = request.rowMarks;
    const { idempotencyKey: key } = request;
    const { place: maxPlace, version: maxVersion } = lastPoint(request);
    const cut = { key, parts: parts.map(partText), maxPlace, maxVersion, isOfCopy };
    await this.store.cut(cut);
    if (isOfCopy) this.#ofCopies.add(hashOf(key));
    else this.#ofStream.set(key, cut);
    return partsOf(request, parts);
  }

  /** Rows of the stream up to there never come again. */
  passed(point: RowPoint): void {
    for (const [key, { maxPlace }] of this.#ofStream)
      if (comparePlace(maxPlace, point) <= 0) this.#ofStream.delete(key);
  }
}

/** The last 64 bits of a UUID, of which all but two are of a hash. */
function hashOf(key: string): bigint {
  return BigInt(`0x${key.slice(19, 23)}${key.slice(24)}`);
}
