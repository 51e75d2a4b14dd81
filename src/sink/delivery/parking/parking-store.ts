// The state's side of parking, as a run sees it. Everything is durable when it returns, and refused under an older term.

import type {
  AttemptNote,
  ParkedMessage,
  ParkedPage,
  ParkedWishes,
  ParkingCall,
  RequestCut,
} from "../../../connector/parking.ts";

export interface ParkingStore {
  load(after: number): Promise<ParkedPage>;
  cut(cut: RequestCut): Promise<void>;
  park(messages: readonly ParkedMessage[]): Promise<void>;
  /** `askedSince`: those that were asked for later; null: all. */
  look(askedSince: string | null): Promise<ParkedWishes>;
  body(id: string): Promise<Uint8Array | null>;
  delivered(id: string): Promise<void>;
  refused(id: string, attempts: readonly AttemptNote[]): Promise<void>;
  tried(askedUntil: string): Promise<void>;
  sweep(version: number): Promise<void>;
}

/** Makes each question a call. `ask` resolves with the answer to its kind, once that is durable. */
export function parkingStoreOf(ask: (call: ParkingCall) => Promise<unknown>): ParkingStore {
  const tell = async (call: ParkingCall) => void (await ask(call));
  return {
    load: async (after) => (await ask({ kind: "load", after })) as ParkedPage,
    cut: (cut) => tell({ kind: "cut", cut }),
    park: (messages) => tell({ kind: "park", messages }),
    look: async (askedSince) => (await ask({ kind: "look", askedSince })) as ParkedWishes,
    body: async (id) => (await ask({ kind: "body", id })) as Uint8Array | null,
    delivered: (id) => tell({ kind: "delivered", id }),
    refused: (id, attempts) => tell({ kind: "refused", id, attempts }),
    tried: (askedUntil) => tell({ kind: "tried", askedUntil }),
    sweep: (version) => tell({ kind: "sweep", version }),
  };
}
