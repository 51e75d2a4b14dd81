// Sets aside what cannot be delivered. A request that is refused for ever is halved until the bad row is alone; that row is parked, and so is
// what comes later of its key. A cut, and what is parked, is durable before anything else of the request is sent: so no row goes out under
// two keys, and nothing is lost whatever dies.

import type { Checkpoint, Position } from "../../../change/checkpoint.ts";
import type { ParkedCause, ParkedEntry, ParkedMessage } from "../../../connector/parking.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ParkingLimits } from "../delivery-settings.ts";
import type { RequestWork, UndeliverableRequests } from "../order/request-work.ts";
import { isBefore } from "../record/sink-record.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type Division, divideRequest, isUncrossed, waitsAsOne } from "./divide-request.ts";
import { ParkedEntries } from "./parked-entries.ts";
import type { ParkedIndex } from "./parked-index.ts";
import { entryOf, messageOf } from "./parked-message.ts";
import { ParkingSpace } from "./parking-space.ts";
import { mostBytesTogether, type ParkingStore } from "./parking-store.ts";
import { RequestCuts } from "./request-cuts.ts";
import { halves, isMarked, lastPoint } from "./request-parts.ts";
import { endPoint, passedPoint } from "./row-place.ts";
import { UncertainKeys } from "./uncertain-keys.ts";

export interface ParkingOptions {
  readonly store: ParkingStore;
  readonly connectorId: string;
  /** What is refused is parked; otherwise the run fails, and only what waits behind earlier messages is parked. */
  readonly parksRefused: boolean;
  readonly limits: ParkingLimits;
  /** Requests that wait at once for messages that are being sent again: they take the place of others. Fewer than may be on their way. */
  readonly mostWaiting: number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  /** What is parked has changed. */
  readonly changed: () => void;
  /** As of `ParkedEntries`. */
  readonly waitsForCheckpoint: boolean;
}

/** Messages that are being sent again, as the parking sees it. */
export interface RetryView {
  readonly isActive: boolean;
  /** They are, or will be within minutes, once the receiver may be asked again. */
  readonly makesSpace: boolean;
  /** Nothing is sent again any more. */
  readonly isOver: boolean;
  isUnderWay(entry: ParkedEntry): boolean;
  /** It is on its way now, and waits for no other one. */
  isSending(entry: ParkedEntry): boolean;
  /** All that is left to be sent waits until the stream has come to it. */
  readonly awaitsStream: boolean;
  /** More of what is parked was reached by the stream. */
  reached(): void;
  /** Resolves when something has become of a message. Throws the signal's reason. */
  change(signal: AbortSignal): Promise<void>;
}

/** Refusals in one request after which what is refused is parked as it is: enough to find some fifty bad rows among thousands. */
const mostRefusals = 1000;
/** What is parked at once of a request's parts that wait. */
const mostTogether = 100;
/** Behind so few messages that are being sent again, a row waits. Otherwise a key that changes all the time would never be free. */
const fewLeft = 64;

export class Parking implements UndeliverableRequests {
  readonly entries: ParkedEntries;
  readonly #cuts: RequestCuts;
  /** Messages on their way to the state. */
  readonly #storing = new Map<string, Promise<void>>();
  readonly #uncertain: UncertainKeys;
  readonly #space: ParkingSpace;
  /** Requests that wait for messages that are being sent again. */
  #waiting = 0;
  /** Requests of the stream up to there may have been sent by an earlier run; null: none has been. */
  #sentUntil: Position | null = null;
  /** Set where both are made. */
  retry: RetryView | null = null;

  constructor(private readonly options: ParkingOptions) {
    this.#cuts = new RequestCuts(options.store);
    this.entries = new ParkedEntries(options);
    this.#uncertain = new UncertainKeys(this.entries);
    this.#space = new ParkingSpace(options.connectorId, options.limits, this.parked);
  }

  get parked(): ParkedIndex {
    return this.entries.parked;
  }

  /** Reads what earlier runs have parked. Call it before anything is sent. */
  async load(): Promise<void> {
    await this.entries.load(({ entry, mayHaveArrived }) => {
      if (mayHaveArrived || this.#uncertain.has(entry)) this.#uncertain.add(entry);
    });
    await this.#cuts.load();
  }

  /** Requests up to there may have been sent by an earlier run. */
  replaysUntil(position: Position | null): void {
    this.#sentUntil = position;
  }

  get isIdle(): boolean {
    return this.entries.isEmpty && this.#cuts.isEmpty;
  }

  /** Whether a request may have to be cut. */
  get mayCut(): boolean {
    return this.options.parksRefused || !this.isIdle;
  }

  /** Resolves when the message is in the state. */
  async stored(id: string): Promise<void> {
    await this.#storing.get(id);
  }

  async next(work: RequestWork, signal: AbortSignal): Promise<OutgoingRequest | null> {
    for (;;) {
      signal.throwIfAborted();
      const request = work.parts[0];
      // Nothing is sent any more, so nobody asks further.
      if (!request || this.retry?.isOver) return request ?? null;
      const { idempotencyKey: key } = request;
      if (this.entries.has(key)) {
        work.replaceFirst();
        if (this.entries.cameAgain(key)) this.retry?.reached();
        continue;
      }
      const parts = isMarked(request) && this.#cuts.has(key) ? await this.#cuts.partsOf(request) : null;
      if (parts) {
        work.replaceFirst(parts);
        continue;
      }
      const division = this.#divide(request);
      if (division === null || division.free.length === division.rows) return request;
      if (division.behind.length === 0 && division.free.length === 0) work.replaceFirst();
      else if (this.#isSoonFree(request)) await this.#untilChange(signal);
      else if (!this.#waitsWhole(request, division))
        await this.#cut(work, [division.free, ...division.behind]);
      else await this.#parkWaiting(work, signal);
    }
  }

  async takes(work: RequestWork, cause: ParkedCause, signal: AbortSignal): Promise<boolean> {
    const request = work.parts[0]!;
    if (!this.options.parksRefused) return false;
    work.refusals++;
    const rows = request.rowMarks?.ends.length ?? 1;
    // Its rows must not go out under other keys.
    const mayHaveArrived = cause === "exhausted" || work.isUncertain || this.#isRepeated(request);
    if (!mayHaveArrived && rows > 1 && work.refusals < mostRefusals) {
      await this.#cut(work, halves(rows));
      return true;
    }
    while (!this.#space.for([request]) && !this.#mayExceed([request])) {
      await this.retry?.change(signal);
      if (this.retry?.isOver) return true;
    }
    await this.#park([request], cause, work, mayHaveArrived);
    return true;
  }

  /** Rows of the stream up to there are durable, and never come again. `areCopiesOpen`: those of a copy may. */
  passed(checkpoint: Checkpoint, areCopiesOpen: boolean): void {
    const point = passedPoint(checkpoint);
    if (this.entries.passed(point)) this.retry?.reached();
    if (this.entries.sweep(point, areCopiesOpen, !this.#cuts.isEmpty)) this.#cuts.passed(point);
  }

  /** Null: nothing that is parked has to do with it. */
  #divide(request: OutgoingRequest): Division | null {
    const { schema, table, touches, barrier } = request;
    const isClear = (index: ParkedIndex) =>
      index.lacks(schema, table) ||
      (!barrier && touches.length > 0 && index.isClearOf(schema, table, touches));
    if (isClear(this.parked) && isClear(this.entries.settled)) return null;
    if (isMarked(request)) return divideRequest(request, this.parked, this.entries.settled);
    const isAhead = this.parked.ahead(schema, table, { hashes: touches, ...endPoint }) !== null;
    return isAhead ? { free: [], behind: [[0]], rows: 1 } : null;
  }

  /** What it waits for is being sent at this moment, and little is left behind that. One whose turn is far off would hold up all others. */
  #isSoonFree(request: OutgoingRequest): boolean {
    const { retry } = this;
    if (!retry?.isActive || this.#waiting >= this.options.mostWaiting || !isMarked(request)) return false;
    const { schema, table, touches } = request;
    const last = lastPoint(request);
    const ahead = new Set<ParkedEntry>();
    for (const hash of touches.length === 0 ? [null] : touches) {
      const entry = this.parked.ahead(schema, table, { ...last, hashes: hash === null ? [] : [hash] });
      if (entry) ahead.add(entry);
    }
    let left = 0;
    for (const entry of ahead) {
      if (!this.parked.firstOfKeys(entry).every((first) => retry.isSending(first))) return false;
      left += this.parked.waiting(entry);
    }
    return ahead.size > 0 && left <= fewLeft;
  }

  async #untilChange(signal: AbortSignal): Promise<void> {
    this.#waiting++;
    try {
      await this.retry?.change(signal);
    } finally {
      this.#waiting--;
    }
  }

  async #cut(work: RequestWork, parts: readonly (readonly number[])[]): Promise<void> {
    const request = work.parts[0];
    if (!request || !isMarked(request)) throw new MillraceError("internal", "a request without rows is cut");
    const rows = parts.filter((part) => part.length > 0);
    work.replaceFirst(await this.#cuts.cut(request, rows));
  }

  /** Parks the first parts of the work that wait as a whole. */
  async #parkWaiting(work: RequestWork, signal: AbortSignal): Promise<void> {
    const waiting: OutgoingRequest[] = [];
    let bytes = 0;
    for (const part of work.parts.slice(0, mostTogether)) {
      if (this.#isKnown(part.idempotencyKey) || !this.#waitsWhole(part, this.#divide(part))) break;
      bytes += part.body.length;
      if (waiting.length > 0 && (bytes > mostBytesTogether || !this.#space.for([...waiting, part]))) break;
      waiting.push(part);
    }
    // Meanwhile what they wait for may be delivered: so it is looked at anew.
    if (!this.#space.for(waiting) && !this.#mayExceed(waiting)) await this.retry?.change(signal);
    else await this.#park(waiting, "behind", work);
  }

  /** It is not cut: all of its rows wait together, or it may have arrived and waits for what was parked though it may have arrived. */
  #waitsWhole(request: OutgoingRequest, division: Division | null): boolean {
    if (division === null || waitsAsOne(division)) return division !== null;
    const { schema, table, touches: hashes, position } = request;
    if (!this.#uncertain.has({ schema, table, hashes })) return false;
    const mayHaveArrived = position ? this.#isRepeated(request) : this.#sentUntil !== null;
    const waiting = division.behind.reduce((sum, { length }) => sum + length, 0);
    if (!mayHaveArrived || waiting === 0 || waiting + division.free.length !== division.rows) return false;
    return !isMarked(request) || isUncrossed(request, this.parked);
  }

  /** An earlier run may have sent it. Of copies it is not known: their chunks come again as a whole. */
  #isRepeated({ position }: OutgoingRequest): boolean {
    return position !== null && this.#sentUntil !== null && !isBefore(this.#sentUntil, position);
  }

  #isKnown(key: string): boolean {
    return this.#cuts.has(key) || this.entries.has(key);
  }

  /** Whether they are parked though there is no space for them: while messages are sent again there will be. Throws `parking_full`. */
  #mayExceed(requests: readonly OutgoingRequest[]): boolean {
    const { makesSpace = false, awaitsStream = false } = this.retry ?? {};
    if (makesSpace && !awaitsStream) return false;
    if (awaitsStream && this.#space.exceed(requests)) return true;
    throw this.#space.full(requests[0]);
  }

  /** Later rows wait behind it from here on; the work goes on once it is durable. */
  async #park(
    requests: readonly OutgoingRequest[],
    cause: ParkedCause,
    work: RequestWork,
    mayHaveArrived = false,
  ): Promise<void> {
    const { store, changed } = this.options;
    const entries = requests.map(entryOf);
    for (const entry of entries) {
      if (mayHaveArrived || this.#uncertain.has(entry)) this.#uncertain.add(entry);
      this.parked.add(entry);
    }
    const attempts = cause === "behind" ? [] : work.notes;
    const storing = this.#store(requests, { cause, attempts, mayHaveArrived }, store);
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
    facts: Pick<ParkedMessage, "cause" | "attempts" | "mayHaveArrived">,
    store: ParkingStore,
  ): Promise<void> {
    await store.park(await Promise.all(requests.map((request) => messageOf(request, facts))));
  }
}
