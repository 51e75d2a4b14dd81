// What a run parks, as the state would keep it, in memory.

import {
  type AttemptNote,
  keptNotes,
  type ParkedMessage,
  type ParkingAnswer,
  type ParkingCall,
  type RequestCut,
} from "../../../src/connector/parking.ts";

interface Kept {
  message: ParkedMessage;
  state: "parked" | "delivered" | "discarded";
  attempts: readonly AttemptNote[];
  asked: number | null;
  readonly parkedMs: number;
  /** When it was discarded. */
  ended?: number;
}

export class MemoryParking {
  readonly kept = new Map<string, Kept>();
  readonly cuts = new Map<string, RequestCut>();
  /** Every message that was ever parked. */
  readonly parkedEver: ParkedMessage[] = [];
  readonly sweeps: Extract<ParkingCall, { kind: "sweep" }>[] = [];
  /** How often a run has looked for wishes. */
  looks = 0;
  /** Of its clock, before the real one. */
  aheadMs = 0;
  #clock = 0;

  get parked(): readonly Kept[] {
    return [...this.kept.values()].filter(({ state }) => state === "parked");
  }

  /** Asks for all, or for some. */
  ask(isAsked: (message: ParkedMessage) => boolean = () => true): number {
    const at = ++this.#clock;
    const asked = this.parked.filter(({ message }) => isAsked(message));
    for (const each of asked) each.asked = at;
    return asked.length;
  }

  discard(id: string): void {
    const gone = this.kept.get(id);
    if (gone?.state !== "parked") return;
    gone.state = "discarded";
    const { message } = gone;
    const at = ++this.#clock;
    gone.ended = at;
    for (const other of this.parked) {
      if (other.message.table !== message.table) continue;
      const shares = other.message.hashes.some((hash) => message.hashes.includes(hash));
      if (shares || message.isWide || other.message.isWide) other.asked = at;
    }
  }

  answer(call: ParkingCall): ParkingAnswer {
    switch (call.kind) {
      case "load":
        return {
          entries: [...this.kept.values()].map(({ message, state, attempts, asked, parkedMs }) => ({
            entry: withoutBody(message),
            isSettled: state !== "parked",
            isUntried: state === "parked" && message.cause === "behind" && attempts.length === 0,
            mayHaveArrived: message.mayHaveArrived,
            untriedMs:
              state === "parked" && asked === null
                ? Date.now() + this.aheadMs - (Date.parse(attempts.at(-1)?.at ?? "") || parkedMs)
                : null,
          })),
          next: null,
        };
      case "cuts": {
        const all = [...this.cuts.values()];
        const ofCopies = all.filter(({ isOfCopy }) => isOfCopy).map(({ key }) => key);
        return { cuts: all.filter(({ isOfCopy }) => !isOfCopy), ofCopies, next: null };
      }
      case "find-cut":
        return this.cuts.get(call.key) ?? null;
      case "cut":
        for (const cut of call.cuts) if (!this.cuts.has(cut.key)) this.cuts.set(cut.key, cut);
        return null;
      case "uncut":
        for (const key of call.keys) this.cuts.delete(key);
        return null;
      case "park": {
        // A statement does not see what it stores itself.
        const before = new Map(this.kept);
        for (const message of call.messages) {
          if (this.kept.has(message.id)) continue;
          this.parkedEver.push(message);
          const replaced = before.get(message.replaces ?? "");
          const gone = replaced?.state === "parked" ? replaced : null;
          if (gone) this.kept.delete(gone.message.id);
          this.kept.set(message.id, {
            message: { ...message, cause: gone?.message.cause ?? message.cause },
            state: "parked",
            attempts: gone?.attempts ?? message.attempts,
            asked: gone?.asked ?? null,
            parkedMs: Date.now(),
          });
        }
        return null;
      }
      case "look":
        this.looks++;
        return this.#look(call.askedSince, call.discardedSince);
      case "ask":
        this.#clock++;
        for (const each of this.parked) each.asked ??= this.#clock;
        return null;
      case "bodies": {
        const asked = this.parked.filter(({ message }) => call.ids.includes(message.id));
        return new Map(asked.map(({ message: { id, body } }) => [id, body]));
      }
      case "delivered":
        for (const kept of this.parked) if (call.ids.includes(kept.message.id)) kept.state = "delivered";
        return null;
      case "refused": {
        const kept = this.parked.find(({ message }) => message.id === call.id);
        if (kept) kept.attempts = call.attempts.reduce(keptNotes, kept.attempts);
        if (kept && (kept.asked ?? 0) <= Number(call.askedUntil ?? -1)) kept.asked = null;
        return null;
      }
      case "held": {
        const kept = this.parked.find(({ message }) => message.id === call.id);
        if (kept) kept.attempts = call.attempts.reduce(keptNotes, kept.attempts);
        if (kept) kept.asked ??= ++this.#clock;
        return null;
      }
      case "tried":
        for (const each of this.kept.values())
          if (each.asked !== null && each.asked <= Number(call.askedUntil)) each.asked = null;
        return null;
      case "sweep":
        this.sweeps.push(call);
        this.#sweep(call);
        return null;
      default:
        return call satisfies never;
    }
  }

  #look(askedSince: string | null, discardedSince: string | null): ParkingAnswer {
    const asked = this.parked.filter(
      (each) => each.asked !== null && each.asked > Number(askedSince ?? Number.NEGATIVE_INFINITY),
    );
    const until = Math.max(...asked.map((each) => each.asked ?? 0));
    return {
      wanted: asked.map(({ message }) => message.id),
      askedUntil: asked.length === 0 ? null : String(until),
      discarded: [...this.kept.values()]
        .filter(({ state, ended = 0 }) => state === "discarded" && ended > Number(discardedSince ?? 0))
        .map(({ message }) => message.id),
      discardedUntil: String(this.#clock),
    };
  }

  #sweep({ place }: Extract<ParkingCall, { kind: "sweep" }>): void {
    for (const [key, cut] of this.cuts) if (!cut.isOfCopy && cut.maxPlace <= place) this.cuts.delete(key);
    for (const [id, { message, state }] of this.kept)
      if (state !== "parked" && !message.isOfCopy && message.places.at(-1)! <= place) this.kept.delete(id);
  }
}

function withoutBody({ body: _, ...entry }: ParkedMessage): Omit<ParkedMessage, "body"> {
  return entry;
}
