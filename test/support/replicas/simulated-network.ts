// A network between replicas and the state that loses, delays and reorders. Each message goes by itself.

import type { Leases } from "../../../src/runtime/replicas/lease-keeper.ts";
import type { ReplicaSelf } from "../../../src/state/stores/lease-store.ts";
import type { MemoryLeases } from "./memory-leases.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** From 0 up to 1. */
export type Random = () => number;

/** https://github.com/bryc/code/blob/master/jshash/PRNGs.md#mulberry32 */
export function randomFrom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface NetworkFaults {
  /** Shares of messages. */
  readonly lost: number;
  readonly slow: number;
  /** A slow message takes up to this. */
  readonly slowMs: number;
}

export const noFaults: NetworkFaults = { lost: 0, slow: 0, slowMs: 0 };

export class SimulatedNetwork {
  faults = noFaults;
  /** Nothing reaches the server, or comes from it. */
  isServerAway = false;
  /** What was sent before this moment and has not arrived by then is lost. */
  cleanFrom = 0;

  constructor(
    private readonly time: SimulatedTime,
    private readonly random: Random,
    private readonly mostMs = 10,
  ) {}

  /** The message arrives, or not. */
  send(arrive: () => void, isCut: () => boolean = () => false): void {
    const { lost, slow, slowMs } = this.faults;
    if (this.random() < lost) return;
    const delay = this.random() < slow ? this.random() * slowMs : 1 + this.random() * (this.mostMs - 1);
    const sentAt = this.time.now;
    this.time.after(delay, () => {
      const isStray = sentAt < this.cleanFrom && this.time.now > this.cleanFrom;
      if (!isStray && !this.isServerAway && !isCut()) arrive();
    });
  }

  /** The store as a replica reaches it. `run` runs an answer in the replica's process. */
  leasesFor(store: MemoryLeases, isCut: () => boolean, run: (work: () => void) => void): Leases {
    const ask = <T>(statement: () => T) =>
      new Promise<T>((resolve, reject) => {
        const answer = (settle: () => void) => this.send(() => run(settle), isCut);
        this.send(() => {
          try {
            const result = statement();
            answer(() => resolve(result));
          } catch (error) {
            answer(() => reject(error));
          }
        }, isCut);
      });
    return {
      join: (self: ReplicaSelf) => ask(() => store.join(self)),
      renew: (self, trouble) => ask(() => store.renew(self, trouble)),
      view: (self) => ask(() => store.view(self)),
      take: (self, ids) => ask(() => store.take(self, ids)),
      release: (self, terms) => ask(() => store.release(self, terms)),
      forgetLost: () => ask(() => store.forgetLost()),
      leave: (self) => ask(() => store.leave(self)),
    };
  }
}
