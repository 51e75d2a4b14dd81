// The state's side of parking, as a run sees it. Everything is durable when it returns, and refused under an older term.

import type {
  AttemptNote,
  CutPage,
  ParkedBodies,
  ParkedEntry,
  ParkedMessage,
  ParkedPage,
  ParkedWishes,
  ParkingCall,
  RequestCut,
} from "../../../connector/parking.ts";
import { BatchedCalls } from "./batched-calls.ts";
import type { RowPoint } from "./row-place.ts";

export interface ParkingStore {
  load(after: number): Promise<ParkedPage>;
  cuts(after: string | null): Promise<CutPage>;
  findCut(key: string): Promise<RequestCut | null>;
  cut(cut: RequestCut): Promise<void>;
  /** Forgets these cuts. */
  uncut(keys: readonly string[]): Promise<void>;
  park(messages: readonly ParkedMessage[]): Promise<void>;
  /** `askedSince`: what was asked for later; null: all. `discardedSince`: what was discarded then and later; null: in the last minutes. */
  look(askedSince: string | null, discardedSince: string | null): Promise<ParkedWishes>;
  /** Asks for all that are parked and that nobody has asked for. */
  ask(): Promise<void>;
  /** Compressed; null: it is not parked any more. */
  body(entry: Pick<ParkedEntry, "id" | "bytes">): Promise<Uint8Array | null>;
  delivered(ids: readonly string[]): Promise<void>;
  /** One that is not parked any more stays as it is. */
  refused(id: string, attempts: readonly AttemptNote[], askedUntil: string | null): Promise<void>;
  /** So does this one. */
  held(id: string, attempts: readonly AttemptNote[]): Promise<void>;
  tried(askedUntil: string): Promise<void>;
  sweep(passed: RowPoint, areCopiesOpen: boolean): Promise<void>;
}

/** Of one call, so that the thread of the state is not held up by it. */
export const mostBytesTogether = 4 * 1024 * 1024;
const bytesOfCut = ({ parts }: RequestCut) => parts.reduce((sum, { length }) => sum + length, 100);
const bytesOfMessage = ({ body, keys }: ParkedMessage) => body.length + keys.length;

/**
 * Makes questions calls. `ask` resolves with the answer to its kind, once that is durable. Of what is asked for most often, all that comes during
 * a call goes with the next one.
 */
export function parkingStoreOf(ask: (call: ParkingCall) => Promise<unknown>): ParkingStore {
  const tell = async (call: ParkingCall) => void (await ask(call));
  const batched = <Item, Result = void>(
    send: (items: readonly Item[]) => Promise<Result>,
    bytesOf: (item: Item) => number,
  ) => new BatchedCalls<Item, Result>({ send, bytesOf, mostBytes: mostBytesTogether });
  const cuts = batched<RequestCut>((all) => tell({ kind: "cut", cuts: all }), bytesOfCut);
  const messages = batched<ParkedMessage>((all) => tell({ kind: "park", messages: all }), bytesOfMessage);
  const delivered = batched<string>(
    (ids) => tell({ kind: "delivered", ids }),
    ({ length }) => length,
  );
  const bodies = batched<Pick<ParkedEntry, "id" | "bytes">, ParkedBodies>(
    async (entries) => (await ask({ kind: "bodies", ids: entries.map(({ id }) => id) })) as ParkedBodies,
    ({ bytes }) => bytes,
  );
  return {
    load: async (after) => (await ask({ kind: "load", after })) as ParkedPage,
    cuts: async (after) => (await ask({ kind: "cuts", after })) as CutPage,
    findCut: async (key) => (await ask({ kind: "find-cut", key })) as RequestCut | null,
    cut: (cut) => cuts.add([cut]),
    uncut: (keys) => tell({ kind: "uncut", keys }),
    park: (all) => messages.add(all),
    look: async (askedSince, discardedSince) =>
      (await ask({ kind: "look", askedSince, discardedSince })) as ParkedWishes,
    ask: () => tell({ kind: "ask" }),
    body: async (entry) => (await bodies.add([entry])).get(entry.id) ?? null,
    delivered: (ids) => delivered.add(ids),
    refused: (id, attempts, askedUntil) => tell({ kind: "refused", id, attempts, askedUntil }),
    held: (id, attempts) => tell({ kind: "held", id, attempts }),
    tried: (askedUntil) => tell({ kind: "tried", askedUntil }),
    sweep: (passed, areCopiesOpen) => tell({ kind: "sweep", ...passed, areCopiesOpen }),
  };
}
