// How the load is spread, and how soon after a death others take over, in simulated time. MILLRACE_TEST_LEASE_RUNS asks for more runs.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { simulatedInstallation } from "../../support/replicas/simulated-installation.ts";
import { SimulatedReplica } from "../../support/replicas/simulated-replica.ts";

const asked = Number(process.env.MILLRACE_TEST_LEASE_RUNS ?? 0);

function stage(seed: number, connectors: number, hasNotices = true) {
  const ids = Array.from({ length: connectors }, (_, each) => `connector-${each}`);
  const { time, random, network, store, replicas } = simulatedInstallation(seed, ids, hasNotices);
  const moves = { told: 0, mostGivingAtOnce: 0 };
  const gainedAt: number[] = [];
  const told = (_by: SimulatedReplica, what: string) => {
    moves.told += 1;
    if (what === "gained") gainedAt.push(time.now);
    const giving = replicas.map((each) => each.giving.size);
    moves.mostGivingAtOnce = Math.max(moves.mostGivingAtOnce, ...giving);
  };
  const join = (weight = 1) => {
    const id = `replica-${replicas.length}`;
    const rate = 1 + (random() - 0.5) / 50;
    const stopMs = () => 100 + random() * 900;
    const context = { time, store, network, random, told };
    const replica = new SimulatedReplica(context, { id, instance: id, weight, rate, stopMs });
    replicas.push(replica);
    replica.start();
    return replica;
  };
  const isEven = () => {
    const all = replicas.filter(({ state, self }) => state === "running" && self.weight > 0);
    const total = all.reduce((sum, { runs }) => sum + runs.size, 0);
    const isFair = (a: SimulatedReplica, b: SimulatedReplica) =>
      a.runs.size * b.self.weight <= (b.runs.size + 1) * a.self.weight;
    return total === connectors && all.every((a) => all.every((b) => isFair(a, b)));
  };
  return { time, random, store, replicas, moves, gainedAt, join, isEven };
}

describe("those that join", () => {
  test(
    "have their share within a minute, one connector at a time, and nothing moves in the 100 renewals after that",
    () => {
      const given = fc.record({
        seed: fc.nat(),
        connectors: fc.integer({ min: 1, max: 40 }),
        first: fc.integer({ min: 1, max: 2 }),
        weights: fc.array(fc.constantFrom(1, 1, 2, 3, 0), { minLength: 1, maxLength: 4 }),
        hasNotices: fc.boolean(),
      });
      fc.assert(
        fc.property(given, ({ seed, connectors, first, weights, hasNotices }) => {
          const { time, moves, join, isEven, replicas } = stage(seed, connectors, hasNotices);
          for (let each = 0; each < first; each++) join();
          time.runUntil(60_000);
          for (const weight of weights) join(weight);
          // So that all are seen.
          time.runUntil(61_000);
          time.runUntil(120_000, isEven);
          if (!isEven()) throw new Error(`not even: ${replicas.map(({ runs }) => runs.size)}`);
          if (moves.mostGivingAtOnce > 1) throw new Error("two were given back at once");
          time.runUntil(time.now + 1_000);
          const before = moves.told;
          time.runUntil(time.now + 100 * 2_000);
          if (moves.told !== before) throw new Error("something moved while nothing changed");
        }),
        { numRuns: 100 + Math.ceil(asked / 20), includeErrorInReport: true },
      );
    },
    60_000 + asked * 10,
  );
});

describe("from the death of a holder to the take-over, with the default lease", () => {
  /** One moment of death in each; all connectors of the dead one count. */
  function takeOvers(trials: number): number[] {
    const waits: number[] = [];
    for (let trial = 0; trial < trials; trial++) {
      const { time, random, join, gainedAt, replicas } = stage(trial, 12);
      for (let each = 0; each < 3; each++) join();
      const diesAt = 40_000 + random() * 6_000;
      time.runUntil(diesAt);
      const dead = replicas[Math.floor(random() * 3)]!;
      const [held, before] = [dead.runs.size, gainedAt.length];
      dead.kill();
      time.runUntil(diesAt + 12_000);
      const after = gainedAt.slice(before);
      expect(after).toHaveLength(held);
      waits.push(...after.map((at) => at - diesAt));
    }
    return waits.sort((a, b) => a - b);
  }

  test(
    "it takes as long as the lease lasts, and a moment",
    () => {
      const waits = takeOvers(200 + Math.ceil(asked / 10));
      const quantile = (share: number) =>
        waits[Math.min(waits.length - 1, Math.floor(share * waits.length))]!;
      expect(quantile(0.5)).toBeWithin(4_500, 5_600);
      expect(quantile(0.99)).toBeWithin(5_500, 6_300);
    },
    60_000 + asked * 10,
  );
});
