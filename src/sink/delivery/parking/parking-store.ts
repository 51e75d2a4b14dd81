// The state's side of parking, as a run sees it. Everything is durable when it returns, and refused under an older term.

import type {
  AttemptNote,
  ParkedMessage,
  ParkedPage,
  ParkedWishes,
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
