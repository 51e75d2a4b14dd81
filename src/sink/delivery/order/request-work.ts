// What is left of a request, and who decides what becomes of one that cannot be delivered as it is. Without parking a request is delivered,
// or the run fails.

import { type AttemptNote, keptNotes, type ParkedCause } from "../../../connector/parking.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";

/** A request on its way, in parts once it is cut. They go one after the other. */
export class RequestWork {
  /** The first and the last two attempts at the part that is first. */
  notes: readonly AttemptNote[] = [];
  /** Attempts that were refused for ever, over all parts. */
  refusals = 0;
  /** An attempt at the part that is first got no clear answer: its rows may have arrived. */
  isUncertain = false;

  constructor(public parts: readonly OutgoingRequest[]) {}

  note(note: AttemptNote): void {
    this.notes = keptNotes(this.notes, note);
  }

  /** The first part is delivered, parked, or needed no more; `by`: other parts are in its place. */
  replaceFirst(by: readonly OutgoingRequest[] = [], count = 1): void {
    this.parts = [...by, ...this.parts.slice(count)];
    this.notes = [];
    this.isUncertain = false;
  }
}

export interface UndeliverableRequests {
  /** Nothing is parked or cut: every request goes as it is. */
  readonly isIdle: boolean;
  /** Which request goes next of the work; null: nothing is left of it. Throws what ends the run. */
  next(work: RequestWork, signal: AbortSignal): Promise<OutgoingRequest | null>;
  /**
   * The first part of the work was refused for ever, or its retries have ended. Returns whether the work goes on; false: the run ends. Throws
   * what ends it for another reason.
   */
  takes(work: RequestWork, cause: ParkedCause, signal: AbortSignal): Promise<boolean>;
}
