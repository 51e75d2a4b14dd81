// How many attempts a connector makes at once: those of the stream and of copies, and those at what is parked. Who waits for a place holds
// none, and who has one waits for no other request: so none of them can stop the others.

import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { Attempt, AttemptOutcome, AttemptWatch } from "./attempt.ts";

export class AttemptPlaces {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#free = most;
  }

  /** Takes a place. Null: it is free; otherwise resolves once one is, in the order of asking. Each is to be given back. */
  take(): Promise<void> | null {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#free--;
    return null;
  }

  giveBack(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}

export interface AttemptCompany {
  /** Absent: nobody else makes attempts. */
  readonly places?: AttemptPlaces | undefined;
  readonly watch?: AttemptWatch | undefined;
}

/** Makes the attempt once there is a place. Null: by then nobody wants it any more. Throws what the attempt throws. */
export async function attemptInPlace(
  attempt: Attempt,
  { places, watch }: AttemptCompany,
  request: OutgoingRequest,
  signal: AbortSignal,
  isOver: () => boolean,
): Promise<AttemptOutcome | null> {
  const place = places?.take();
  if (place) await place;
  try {
    if (isOver()) return null;
    const beganAtMs = watch ? watch.nowMs() : 0;
    const outcome = await attempt(request, signal);
    watch?.ended(request, outcome, beganAtMs);
    return outcome;
  } finally {
    places?.giveBack();
  }
}
