import { describe, expect, test } from "bun:test";
import {
  answerMs,
  deadlineAfter,
  leasesToTake,
  leaseToGive,
  nextLookMs,
} from "../../../src/runtime/replicas/lease-decisions.ts";
import type { FreeLease, InstallationView, ReplicaView } from "../../../src/state/stores/lease-store.ts";

const leaseMs = 6_000;

function replica(id: string, active: number, more: Partial<ReplicaView> = {}): ReplicaView {
  const [startedAt, seenAt] = [new Date(0), new Date(0)];
  const fixed = { id, instance: `${id}/1`, host: "h", version: "1", startedAt, seenAt, trouble: null };
  return { ...fixed, weight: 1, isAlive: true, held: active, active, ...more };
}

const free = (connectorId: string, more: Partial<FreeLease> = {}): FreeLease => ({
  connectorId,
  active: true,
  freeMs: 10,
  ...more,
});

const view = (replicas: ReplicaView[], leases: FreeLease[] = [], nextEndMs: number | null = null) =>
  ({ replicas, free: leases, nextEndMs }) satisfies InstallationView;

/** Who takes what. */
const takers = (of: InstallationView) =>
  Object.fromEntries(of.replicas.map(({ id, instance }) => [id, leasesToTake(of, instance, leaseMs)]));

/** Who gives what to whom. */
const givers = (of: InstallationView) =>
  of.replicas.flatMap(({ id, instance }) => {
    const gift = leaseToGive(of, instance);
    return gift ? [`${id} gives ${gift.kind} to ${gift.to?.id ?? "anybody"}`] : [];
  });

describe("the deadline", () => {
  test("is a sixth of the lease before its end, and half a second at least", () => {
    expect(deadlineAfter(1_000, 6_000)).toBe(6_000);
    expect(deadlineAfter(1_000, 2_000)).toBe(2_500);
    expect(deadlineAfter(1_000, 300_000)).toBe(251_000);
  });

  test("leaves time for a second try after a renewal without an answer", () => {
    for (const lease of [2_000, 6_000, 300_000]) {
      expect(lease / 3 + answerMs(lease)).toBeLessThan(deadlineAfter(0, lease));
    }
  });
});

describe("free leases", () => {
  test("go to those who have the least to run, in equal parts, and each to one", () => {
    const leases = ["a", "b", "c", "d", "e"].map((id) => free(id));
    expect(takers(view([replica("x", 2), replica("y", 0), replica("z", 1)], leases))).toEqual({
      x: ["d"],
      y: ["a", "b", "e"],
      z: ["c"],
    });
  });

  test("go to the first by id among equal ones, in whatever order the state names them", () => {
    const shuffled = view([replica("y", 0), replica("x", 0)], [free("b"), free("a")]);
    expect(takers(shuffled)).toEqual({ x: ["a"], y: ["b"] });
  });

  test("go by weight", () => {
    const leases = ["a", "b", "c", "d"].map((id) => free(id));
    const taken = takers(view([replica("x", 0), replica("y", 0, { weight: 3 })], leases));
    expect(taken).toEqual({ x: ["c"], y: ["a", "b", "d"] });
  });

  test("never go to a replica of weight 0, or to one that is dead or unknown", () => {
    const none = [replica("x", 0, { weight: 0 }), replica("y", 0, { isAlive: false })];
    expect(takers(view(none, [free("a", { freeMs: 60_000 })]))).toEqual({ x: [], y: [] });
    expect(leasesToTake(view([], [free("a")]), "z/1", leaseMs)).toEqual([]);
  });

  test("are anyone's when they were free for longer than a lease", () => {
    const taken = takers(
      view([replica("x", 0), replica("y", 5)], [free("a", { freeMs: leaseMs + 1 }), free("b")]),
    );
    expect(taken).toEqual({ x: ["a", "b"], y: ["a"] });
  });

  test("of connectors that are not to run are spread by themselves", () => {
    const idle = ["a", "b"].map((id) => free(id, { active: false }));
    const replicas = [replica("x", 0, { held: 3 }), replica("y", 9)];
    expect(takers(view(replicas, idle))).toEqual({ x: [], y: ["a", "b"] });
  });
});

describe("a connector is given back", () => {
  test("by the one with the most, to the one with the fewest, from a difference of two on", () => {
    expect(givers(view([replica("x", 4), replica("y", 2), replica("z", 3)]))).toEqual([
      "x gives active to y",
    ]);
    expect(givers(view([replica("x", 3), replica("y", 2), replica("z", 3)]))).toEqual([]);
    expect(givers(view([replica("x", 3), replica("y", 3), replica("z", 0)]))).toEqual([
      "x gives active to z",
    ]);
  });

  test("by weight, only where it makes the load more even", () => {
    const heavy = replica("y", 2, { weight: 3 });
    expect(givers(view([replica("x", 2), heavy]))).toEqual(["x gives active to y"]);
    expect(givers(view([replica("x", 1), heavy]))).toEqual([]);
    expect(givers(view([replica("x", 1), replica("y", 3, { weight: 3 })]))).toEqual([]);
    expect(givers(view([replica("x", 0), replica("y", 3, { weight: 3 })]))).toEqual([]);
    expect(givers(view([replica("x", 0), replica("y", 4, { weight: 3 })]))).toEqual(["y gives active to x"]);
  });

  test("by nobody while leases are free: one is on its way at most", () => {
    expect(givers(view([replica("x", 4), replica("y", 0)], [free("a")]))).toEqual([]);
  });

  test("to nobody who is dead or has the weight 0", () => {
    const others = [replica("y", 0, { isAlive: false }), replica("z", 0, { weight: 0 })];
    expect(givers(view([replica("x", 4), ...others]))).toEqual([]);
  });

  test("by a replica of weight 0, whatever the others have", () => {
    expect(givers(view([replica("x", 1, { weight: 0 })], [free("a")]))).toEqual([
      "x gives active to anybody",
    ]);
    expect(givers(view([replica("x", 0, { weight: 0, held: 1 })]))).toEqual(["x gives idle to anybody"]);
  });

  test("that is not to run, when those that run are even", () => {
    expect(givers(view([replica("x", 1, { held: 5 }), replica("y", 1)]))).toEqual(["x gives idle to y"]);
    expect(givers(view([replica("x", 1, { held: 5 }), replica("y", 3)]))).toEqual([
      "x gives idle to y",
      "y gives active to x",
    ]);
  });
});

describe("the next look", () => {
  const both = [replica("x", 1), replica("y", 1)];
  test("is at the next renewal", () => {
    expect(nextLookMs(view(both), 1_500, leaseMs)).toBe(1_500);
    expect(nextLookMs(view(both), -100, leaseMs)).toBe(20);
  });

  test("is just after the end of another's lease, if that comes first", () => {
    expect(nextLookMs(view(both, [], 300), 1_500, leaseMs)).toBe(350);
    expect(nextLookMs(view(both, [], 5_000), 1_500, leaseMs)).toBe(1_500);
  });

  test("is soon while something is to be taken or given", () => {
    expect(nextLookMs(view(both, [free("a")]), 1_500, leaseMs)).toBe(500);
    expect(nextLookMs(view([replica("x", 3), replica("y", 1)]), 1_500, leaseMs)).toBe(500);
  });
});
