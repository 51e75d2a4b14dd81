// Several replicas in simulated time, with clocks of their own, and everything that can go wrong between them and the state.
// MILLRACE_TEST_LEASE_RUNS asks for more runs, MILLRACE_TEST_LEASE_SEED repeats some.

import { test } from "bun:test";
import fc from "fast-check";
import { type Fault, LeaseScenario, leaseMs, type Scenario } from "../../support/replicas/lease-scenario.ts";

const runs = Number(process.env.MILLRACE_TEST_LEASE_RUNS ?? 3_000);
const seed = process.env.MILLRACE_TEST_LEASE_SEED;
const parameters = {
  numRuns: runs,
  includeErrorInReport: true,
  ...(seed === undefined ? {} : { seed: Number(seed) }),
};

const replica = fc.record({
  weight: fc.constantFrom(1, 1, 1, 1, 2, 3, 0),
  permille: fc.integer({ min: -10, max: 10 }),
  offset: fc.nat(1_000_000),
});

const fault: fc.Arbitrary<Fault> = fc.record({
  kind: fc.constantFrom(
    "freeze",
    "freeze",
    "kill",
    "restart",
    "join",
    "leave",
    "cut",
    "twin",
    "server away",
    "create",
    "delete",
    "replace",
    "toggle",
  ),
  afterMs: fc.nat(6_000),
  which: fc.nat(100),
  forMs: fc.nat(20_000),
});

const scenario: fc.Arbitrary<Scenario> = fc.record({
  seed: fc.nat(),
  connectors: fc.integer({ min: 1, max: 8 }),
  replicas: fc.array(replica, { minLength: 1, maxLength: 4 }),
  lost: fc.constantFrom(0, 0, 5, 30),
  slow: fc.constantFrom(0, 0, 5, 30, 80),
  slowMs: fc.constantFrom(2_500, 3 * leaseMs),
  faults: fc.array(fault, { maxLength: 8 }),
  hasNotices: fc.boolean(),
});

test(
  "one replica at most holds a connector, and after the faults each is held, evenly, and stays",
  () => {
    fc.assert(
      fc.property(scenario, (given) => {
        new LeaseScenario(given).run(4);
      }),
      parameters,
    );
  },
  60_000 + runs * 10,
);
