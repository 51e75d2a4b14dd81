// Sets aside what cannot be delivered. A request that is refused for ever is halved until the bad row is alone; that row is parked, and so is
// what comes later of its key. A cut, and what is parked, is durable before anything else of the request is sent: so no row goes out under
// two keys, and nothing is lost whatever dies.

import type { ParkedCause, ParkedEntry, RequestCut } from "../../../connector/parking.ts";
import { partRows, partText } from "../../../connector/parking.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { RequestWork, UndeliverableRequests } from "../order/request-work.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type Division, divideRequest } from "./divide-request.ts";
import { ParkedIndex } from "./parked-index.ts";
import { entryOf, messageOf } from "./parked-message.ts";
import type { ParkingStore } from "./parking-store.ts";
import { halves, partOf, type RowsRequest } from "./request-parts.ts";

export interface ParkingLimits {
  readonly maxMessages: number;
  /** Of bodies, before they are compressed. */
  readonly maxBytes: number;
}

export interface ParkingOptions {
  readonly store: ParkingStore;
  readonly connectorId: string;
  /** What is refused is parked; otherwise the run fails, and only what waits behind earlier messages is parked. */
  readonly parksRefused: boolean;
  readonly limits: ParkingLimits;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  /** What is parked has changed. */
  readonly changed: () => void;
}

/** Messages that are being sent again, as the parking sees it. */
export interface RetryView {
  readonly isActive: boolean;
  /** Nothing is sent again any more. */
  readonly isOver: boolean;
  isUnderWay(entry: ParkedEntry): boolean;
  /** More of what is parked was reached by the stream. `isEnough`: what was not may go all the same. */
  reached(isEnough: boolean): void;
  /** Resolves when something has become of a message. Throws the signal's reason. */
  change(signal: AbortSignal): Promise<void>;
}

/** Refusals in one request after which what is refused is parked as it is: enough to find some fifty bad rows among thousands. */
const mostRefusals = 1000;
/** What is parked with one statement. */
const mostTogether = 100;
const mostBytesTogether = 4 * 1024 * 1024;
/** Behind so few messages that are being sent again, a row waits. Otherwise a key that changes all the time would never be free. */
const fewLeft = 64;
const sweepSpacingMs = 2_000;

export class Parking implements UndeliverableRequests {
  readonly parked = new ParkedIndex();
  /** Messages that are not parked any more, and whose rows may come again after a restart. */
  readonly settled = new ParkedIndex();
  readonly #cuts = new Map<string, RequestCut>();
  /**
   * Messages of earlier runs whose rows have not come again. Rows of their keys that were delivered before them may still come again: these
   * must not come after them.
   */
  readonly #unreached = new Set<string>();
  /** Messages on their way to the state. */
  readonly #storing = new Map<string, Promise<void>>();
  /** Set where both are made. */
  retry: RetryView | null = null;
  #sweptMs = Number.NEGATIVE_INFINITY;
  #sweptVersion = -1;
  #passedVersion = -1;

  constructor(private readonly options: ParkingOptions) {}

  /** Reads what earlier runs have parked. Call it before anything is sent. */
  async load(): Promise<void> {
    for (let after: number | null = 0; after !== null; ) {
      const page = await this.options.store.load(after);
      for (const { entry, isSettled } of page.entries) {
        (isSettled ? this.settled : this.parked).add(entry);
        if (!isSettled) this.#unreached.add(entry.id);
      }
      for (const cut of page.cuts) this.#cuts.set(cut.key, cut);
      after = page.next;
    }
    if (this.parked.size > 0) this.options.changed();
  }

  get isIdle(): boolean {
    return this.parked.size === 0 && this.settled.size === 0 && this.#cuts.size === 0;
  }

  /** Whether a request may have to be cut. */
  get mayCut(): boolean {
    return this.options.parksRefused || !this.isIdle;
  }

  /** Resolves when the message is in the state. */
  async stored(id: string): Promise<void> {
    await this.#storing.get(id);
  }

  /** Whether all rows of its keys that came before it are delivered, and none of them comes again. */
  isReached({ id, maxVersion }: ParkedEntry): boolean {
    return maxVersion <= this.#passedVersion || !this.#unreached.has(id);
  }

  /** The message is delivered or discarded, and that is durable. */
  settle(entry: ParkedEntry): void {
    this.parked.remove(entry);
    this.#unreached.delete(entry.id);
    this.settled.add(entry);
    this.options.changed();
  }

  async next(work: RequestWork, signal: AbortSignal): Promise<OutgoingRequest | null> {
    for (;;) {
      signal.throwIfAborted();
      const request = work.parts[0];
      // Nothing is sent any more, so nobody asks further.
      if (!request || this.retry?.isOver) return request ?? null;
      const { idempotencyKey: key } = request;
      if (this.parked.get(key) || this.settled.get(key)) {
        work.replaceFirst();
        if (this.#unreached.delete(key)) this.retry?.reached(false);
        continue;
      }
      const cut = this.#cuts.get(key);
      if (cut && isMarked(request)) {
        work.replaceFirst(cut.parts.map((part) => partOf(request, partRows(part))));
        continue;
      }
      const division = this.#divide(request);
      if (division === null || division.free.length === division.rows) return request;
      if (division.behind.length === 0 && division.free.length === 0) work.replaceFirst();
      else if (this.#isSoonFree(request)) await this.retry?.change(signal);
      else if (!waitsAsOne(division)) await this.#cut(work, [division.free, ...division.behind]);
      else await this.#parkWaiting(work, signal);
    }
  }

  async takes(work: RequestWork, cause: ParkedCause, signal: AbortSignal): Promise<boolean> {
    const request = work.parts[0]!;
    if (!this.options.parksRefused) return false;
    work.refusals++;
    const rows = request.rowMarks?.versions.length ?? 1;
    // What was not answered may have arrived: its rows must not go out under other keys.
    if (cause === "refused" && !work.isUncertain && rows > 1 && work.refusals < mostRefusals) {
      await this.#cut(work, halves(rows));
      return true;
    }
    while (!this.#fits([request])) {
      await this.#untilSpace([request], signal);
      if (this.retry?.isOver) return true;
    }
    await this.#park([request], cause, work);
    return true;
  }

  /** Rows of the stream up to this version are durable, and never come again. */
  passed(version: number): void {
    const { store, monotonic } = this.options;
    this.#passedVersion = version;
    if (this.#unreached.size > 0) this.retry?.reached(false);
    if (this.settled.size === 0 && this.#cuts.size === 0) return;
    if (version <= this.#sweptVersion || monotonic() - this.#sweptMs < sweepSpacingMs) return;
    this.#sweptMs = monotonic();
    this.#sweptVersion = version;
    const isOver = (each: { readonly isOfCopy: boolean; readonly maxVersion: number }) =>
      !each.isOfCopy && each.maxVersion <= version;
    for (const [key, cut] of this.#cuts) if (isOver(cut)) this.#cuts.delete(key);
    for (const entry of [...this.settled.all()]) if (isOver(entry)) this.settled.remove(entry);
    // What is left in the state is removed by a later sweep.
    store.sweep(version).catch(() => undefined);
  }

  /** Null: nothing that is parked has to do with it. */
  #divide(request: OutgoingRequest): Division | null {
    const { schema, table, touches, barrier } = request;
    const isClear = (index: ParkedIndex) =>
      index.lacks(schema, table) ||
      (!barrier && touches.length > 0 && index.isClearOf(schema, table, touches));
    if (isClear(this.parked) && isClear(this.settled)) return null;
    if (isMarked(request)) return divideRequest(request, this.parked, this.settled);
    const place = { hashes: touches, version: Number.POSITIVE_INFINITY };
    const isAhead = this.parked.ahead(schema, table, place) !== null;
    return isAhead ? { free: [], behind: [[0]], rows: 1 } : null;
  }

  /** What it waits for is being sent again, and little of it is left. */
  #isSoonFree(request: OutgoingRequest): boolean {
    const { retry } = this;
    if (!retry?.isActive || !isMarked(request)) return false;
    const { schema, table, touches, rowMarks } = request;
    const version = rowMarks.versions.at(-1)!;
    const ahead = new Set<ParkedEntry>();
    for (const hash of touches.length === 0 ? [null] : touches) {
      const entry = this.parked.ahead(schema, table, { hashes: hash === null ? [] : [hash], version });
      if (entry) ahead.add(entry);
    }
    let left = 0;
    for (const entry of ahead) {
      const isGoing = (first: ParkedEntry) => retry.isUnderWay(first) && this.isReached(first);
      if (!this.parked.firsts(entry).every(isGoing)) return false;
      left += this.parked.waiting(entry);
    }
    return ahead.size > 0 && left <= fewLeft;
  }

  async #cut(work: RequestWork, parts: readonly (readonly number[])[]): Promise<void> {
    const request = work.parts[0];
    if (!request || !isMarked(request)) throw new MillraceError("internal", "a request without rows is cut");
    const rows = parts.filter((part) => part.length > 0);
    const { versions, isOfCopy } = request.rowMarks;
    const cut: RequestCut = {
      key: request.idempotencyKey,
      parts: rows.map(partText),
      ...{ maxVersion: versions.at(-1)!, isOfCopy },
    };
    await this.options.store.cut(cut);
    this.#cuts.set(cut.key, cut);
    work.replaceFirst(rows.map((part) => partOf(request, part)));
  }

  /** Parks the first parts of the work that wait as a whole. */
  async #parkWaiting(work: RequestWork, signal: AbortSignal): Promise<void> {
    const waiting: OutgoingRequest[] = [];
    let bytes = 0;
    for (const part of work.parts.slice(0, mostTogether)) {
      if (this.#isKnown(part.idempotencyKey) || !waitsAsOne(this.#divide(part))) break;
      bytes += part.body.length;
      if (waiting.length > 0 && (bytes > mostBytesTogether || !this.#fits([...waiting, part]))) break;
      waiting.push(part);
    }
    // Meanwhile what they wait for may be delivered: so it is looked at anew.
    if (!this.#fits(waiting)) return await this.#untilSpace(waiting, signal);
    await this.#park(waiting, "behind", work);
  }

  #isKnown(key: string): boolean {
    return this.#cuts.has(key) || this.parked.get(key) !== undefined || this.settled.get(key) !== undefined;
  }

  #fits(requests: readonly OutgoingRequest[]): boolean {
    const { maxMessages, maxBytes } = this.options.limits;
    const bytes = requests.reduce((sum, { body }) => sum + body.length, 0);
    // A message that is larger than all that may be parked is parked where nothing else is.
    const hasSpace = this.parked.bytes + bytes <= maxBytes || this.parked.size === 0;
    return hasSpace && this.parked.size + requests.length <= maxMessages;
  }

  /** While messages are sent again there will be space. Throws `parking_full`. */
  async #untilSpace([request]: readonly OutgoingRequest[], signal: AbortSignal): Promise<void> {
    if (this.retry?.isActive) {
      this.retry.reached(true);
      return await this.retry.change(signal);
    }
    const { connectorId, limits } = this.options;
    throw new MillraceError(
      "parking_full",
      `Parking is full: ${this.parked.size} messages with ${this.parked.bytes} bytes are parked, and at most ${limits.maxMessages} ` +
        `messages and ${limits.maxBytes} bytes may be. The next one is of ${request?.schema}.${request?.table} (Idempotency-Key ` +
        `${request?.idempotencyKey}). "millrace parked list ${connectorId}" shows what is parked. Mend the receiver, run "millrace parked ` +
        `retry ${connectorId}" or "millrace parked discard ${connectorId}" for some of it, and start the connector again`,
    );
  }

  /** Later rows wait behind it from here on; the work goes on once it is durable. */
  async #park(requests: readonly OutgoingRequest[], cause: ParkedCause, work: RequestWork): Promise<void> {
    const { store, changed } = this.options;
    const entries = requests.map(entryOf);
    for (const entry of entries) this.parked.add(entry);
    const storing = this.#store(requests, cause, work, store);
    for (const { id } of entries) this.#storing.set(id, storing);
    try {
      await storing;
    } finally {
      for (const { id } of entries) this.#storing.delete(id);
    }
    work.replaceFirst([], requests.length);
    changed();
  }

  async #store(
    requests: readonly OutgoingRequest[],
    cause: ParkedCause,
    { notes }: RequestWork,
    store: ParkingStore,
  ): Promise<void> {
    const attempts = cause === "behind" ? [] : notes;
    await store.park(await Promise.all(requests.map((request) => messageOf(request, cause, attempts))));
  }
}

/** All of its rows wait, and they stay together. */
function waitsAsOne(division: Division | null): boolean {
  return division !== null && division.free.length === 0 && division.behind[0]?.length === division.rows;
}

function isMarked(request: OutgoingRequest): request is RowsRequest {
  return request.rowMarks !== undefined;
}
