// One keeper's life step by step, in simulated time, against the store in memory.

import { describe, expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { simulatedInstallation } from "../../support/replicas/simulated-installation.ts";
import { noFaults } from "../../support/replicas/simulated-network.ts";
import { SimulatedReplica, type SimulatedReplicaOptions } from "../../support/replicas/simulated-replica.ts";

function stage(connectors: readonly string[] = [], seed = 1) {
  const { time, random, network, store, replicas } = simulatedInstallation(seed, connectors);
  /** `replica: gained connector`, in order. */
  const told: string[] = [];
  const lines: { readonly level: string; readonly msg: string }[] = [];
  const join = (id: string, more: Partial<SimulatedReplicaOptions> = {}, starts = true) => {
    const replica = new SimulatedReplica(
      {
        time,
        store,
        network,
        random,
        told: (by, what, connector) => told.push(`${by.self.id}: ${what} ${connector}`),
      },
      { id, instance: `${id}/${replicas.length}`, log: (line) => lines.push(JSON.parse(line)), ...more },
    );
    replicas.push(replica);
    if (starts) replica.start();
    return replica;
  };
  const pass = (ms: number) => time.runUntil(time.now + ms);
  const said = () => lines.map(({ level, msg }) => `${level}: ${msg}`);
  /** One that runs nothing, but could hear of everything: beside it nobody is alone. */
  const joinApiOnly = () => {
    join("api", { weight: 0, log: () => {} });
    pass(50);
  };
  return { time, network, store, told, lines, join, joinApiOnly, pass, said };
}

describe("a replica alone", () => {
  test("joins, takes everything, and keeps it", () => {
    const { join, pass, told, said } = stage(["a", "b"]);
    const x = join("x");
    pass(100);
    expect(told).toEqual(["x: gained a", "x: gained b"]);
    expect(said()).toEqual([
      "info: joined the installation",
      "info: took 2 connectors that had no replica yet",
    ]);
    pass(200_000);
    expect(told).toHaveLength(2);
    expect([...x.runs]).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
    expect(x.keeper.view?.replicas[0]).toMatchObject({ id: "x", isAlive: true, active: 2 });
  });

  test("tells of others when they come, and of what they hold", () => {
    const { join, pass } = stage(["a", "b"]);
    const x = join("x");
    pass(5_000);
    const seen = () => x.seen.map(({ id, active }) => `${id} ${active}`).toSorted();
    expect(seen()).toEqual(["x 2"]);
    join("y");
    pass(60_000);
    expect(seen()).toEqual(["x 1", "y 1"]);
  });

  test("beside another holds for no longer than its deadline", () => {
    const { join, joinApiOnly, pass } = stage(["a"]);
    joinApiOnly();
    const x = join("x");
    pass(100);
    expect(x.keeper.holds("a")).toBe(true);
    expect(x.keeper.holds("a", 2_500)).toBe(true);
    expect(x.keeper.holds("a", 5_000)).toBe(false);
    expect(x.keeper.holds("b")).toBe(false);
  });

  test("runs what is poked for within 100 ms", () => {
    const { join, pass, store, told } = stage();
    const x = join("x");
    pass(1_000);
    store.add("a");
    // As many as may come in a moment: none of them puts the look off.
    for (let each = 0; each < 10; each++) {
      x.poke();
      pass(10);
    }
    expect(told).toEqual(["x: gained a"]);
  });
});

describe("the state away", () => {
  test("costs all leases at the deadline, and they are taken anew when it is back", () => {
    const { join, joinApiOnly, pass, network, told, said, time } = stage(["a", "b"]);
    joinApiOnly();
    const x = join("x");
    pass(1_000);
    network.isServerAway = true;
    pass(3_950);
    expect(told).toHaveLength(2);
    pass(100);
    expect(told.slice(2)).toEqual(["x: lost a", "x: lost b"]);
    expect(said().at(-1)).toBe(
      "warn: the state did not answer for 5.0 s: 2 connectors stop here, and other replicas may run them",
    );
    pass(600_000);
    expect(told).toHaveLength(4);
    expect(said().filter((line) => line.includes("does not answer about leases"))).toHaveLength(1);
    network.isServerAway = false;
    const back = time.now;
    time.runUntil(back + 5_000, () => x.runs.size === 2);
    expect(time.now - back).toBeLessThan(2_700);
    expect([...x.runs]).toEqual([
      ["a", 2],
      ["b", 2],
    ]);
    expect(said().slice(-2)).toEqual([
      "info: the state answers about leases again",
      "info: took 2 connectors that nobody ran",
    ]);
  });

  test("a renewal's answer that comes after the deadline revives nothing", () => {
    const { join, joinApiOnly, pass, told, store, time } = stage(["a"]);
    joinApiOnly();
    const x = join("x");
    pass(100);
    // The state has renewed; the answer is on its way.
    time.runUntil(4_000, () => store.replicas.get("x")!.seenAt > 1_000);
    x.freeze();
    pass(3_500);
    expect(store.holderOf("a")).toEqual({ instance: x.self.instance, term: 1 });
    x.thaw();
    pass(2);
    expect(told).toEqual(["x: gained a", "x: lost a"]);
    pass(3_000);
    expect(told).toEqual(["x: gained a", "x: lost a", "x: gained a"]);
    expect(x.runs.get("a")).toBe(2);
  });

  test("a replica whose row is gone joins again", () => {
    const { join, pass, store, told, said } = stage(["a"]);
    const x = join("x");
    pass(100);
    store.leave(x.self);
    pass(3_000);
    expect(told).toEqual(["x: gained a", "x: lost a", "x: gained a"]);
    expect(x.runs.get("a")).toBe(2);
    expect(said()).toContain(
      "info: no longer runs the connector: it was removed, or another replica has its lease",
    );
  });

  test("a replica whose id another one has taken meanwhile runs nothing, says so once, and joins when that one is gone", () => {
    const { join, pass, said } = stage(["a"]);
    const x = join("x");
    pass(100);
    x.freeze();
    pass(8_000);
    const twin = join("x");
    pass(1_000);
    expect([...twin.runs]).toEqual([["a", 2]]);
    x.thaw();
    pass(60_000);
    expect(x.runs.size).toBe(0);
    expect(said().filter((line) => line.startsWith("error"))).toEqual([
      "error: this replica runs nothing for now, and keeps trying to join",
    ]);
    twin.kill();
    pass(8_000);
    expect([...x.runs]).toEqual([["a", 3]]);
  });
});

describe("a replica that was alone when the state went away", () => {
  test("goes on, and under the same terms when the state is back", () => {
    const { join, pass, network, told, said } = stage(["a", "b"]);
    const x = join("x");
    pass(100);
    network.isServerAway = true;
    pass(600_000);
    expect(x.keeper.holds("a", 60_000)).toBe(true);
    network.isServerAway = false;
    pass(5_000);
    expect(told).toEqual(["x: gained a", "x: gained b"]);
    expect([...x.runs.values()]).toEqual([1, 1]);
    expect(said().some((line) => line.includes("connectors stop here"))).toBe(false);
  });

  test("stops once it hears that another one has come meanwhile", () => {
    const { join, pass, told } = stage(["a"]);
    const x = join("x");
    pass(100);
    x.isCut = true;
    pass(1_000);
    const y = join("y");
    pass(20_000);
    expect(y.runs.get("a")).toBe(2);
    expect(x.keeper.holds("a")).toBe(true);
    x.isCut = false;
    pass(3_000);
    expect(told).toEqual(["x: gained a", "y: gained a", "x: lost a"]);
    expect(x.keeper.holds("a")).toBe(false);
  });
});

describe("a process that stood still", () => {
  test.each(["holds", "timer"])("loses all before anything else, and gains them anew (%s first)", (first) => {
    const { join, joinApiOnly, pass, told, said } = stage(["a", "b"]);
    joinApiOnly();
    const x = join("x");
    pass(100);
    x.freeze();
    pass(20_000);
    x.thaw(() => {
      if (first !== "holds") return;
      expect(x.keeper.holds("b")).toBe(false);
      expect(told.slice(2)).toEqual(["x: lost a", "x: lost b"]);
    });
    pass(1);
    expect(told.slice(2, 4)).toEqual(["x: lost a", "x: lost b"]);
    expect(said().find((line) => line.startsWith("warn"))).toMatch(
      /^warn: this process, or its machine, stood still, and the leases were not renewed for 2\d\.\d s: 2 connectors stop here/,
    );
    pass(3_000);
    expect(told.slice(4)).toEqual(["x: gained a", "x: gained b"]);
    expect([...x.runs.values()]).toEqual([2, 2]);
  });

  test("finds its connectors with another one, and disturbs none of them", () => {
    const { join, pass, told } = stage(["a", "b"]);
    const x = join("x");
    pass(100);
    const y = join("y", { weight: 0 });
    pass(4_000);
    x.freeze();
    const z = join("z");
    pass(20_000);
    expect([...z.runs.keys()].sort()).toEqual(["a", "b"]);
    told.length = 0;
    x.thaw();
    pass(1);
    expect(told).toEqual(["x: lost a", "x: lost b"]);
    expect([x.keeper.holds("a"), z.keeper.holds("a"), y.keeper.holds("a")]).toEqual([false, true, false]);
  });

  test("for less than the deadline loses nothing", () => {
    const { join, pass, told } = stage(["a"]);
    const x = join("x");
    pass(100);
    x.freeze();
    pass(4_000);
    x.thaw();
    pass(20_000);
    expect(told).toEqual(["x: gained a"]);
  });
});

describe("an answer that was on its way while the process stood still", () => {
  // What came meanwhile runs in any order.
  const seeds = [1, 2, 3, 4, 5, 6, 7, 8];

  test.each(seeds)("to a take gains nothing after the deadline (order %d)", (seed) => {
    const { join, pass, told, store, time } = stage([], seed);
    const x = join("x");
    pass(100);
    store.add("a");
    x.poke();
    time.runUntil(1_000, () => store.holderOf("a") !== null);
    x.freeze();
    pass(20_000);
    const y = join("y");
    pass(1_000);
    expect(y.runs.get("a")).toBe(2);
    x.thaw();
    pass(10_000);
    expect(told).toEqual(["y: gained a"]);
  });

  test.each(seeds)("to a renewal gains nothing after the deadline (order %d)", (seed) => {
    const { join, pass, told, store, time } = stage([], seed);
    const x = join("x");
    pass(100);
    store.add("a");
    store.take(x.self, ["a"]);
    time.runUntil(4_000, () => store.replicas.get("x")!.seenAt > 1_000);
    x.freeze();
    pass(20_000);
    const y = join("y");
    pass(1_000);
    x.thaw();
    pass(10_000);
    expect(told).toEqual(["y: gained a"]);
    expect(y.runs.get("a")).toBe(2);
  });

  test("to a renewal counts from its sending", () => {
    const { join, joinApiOnly, pass, time, network, store } = stage(["a"]);
    joinApiOnly();
    const x = join("x");
    pass(100);
    time.runUntil(4_000, () => store.replicas.get("x")!.seenAt > 1_000);
    x.freeze();
    pass(1_500);
    x.thaw();
    network.isServerAway = true;
    // The renewal was sent at 2.0 s.
    pass(7_100 - time.now);
    expect(store.holderOf("a")).toEqual({ instance: x.self.instance, term: 1 });
    expect(x.runs.size).toBe(0);
  });
});

describe("a take whose answer was lost", () => {
  test("is told by the next renewal, under the right term", () => {
    const { join, pass, store, told, said } = stage();
    const x = join("x");
    pass(100);
    store.add("a");
    // It reached the state; its answer did not come back.
    store.take(x.self, ["a"]);
    pass(2_100);
    expect(told).toEqual(["x: gained a"]);
    expect(x.runs.get("a")).toBe(1);
    expect(said().at(-1)).toBe(
      "info: took a connector: the state's answer was lost, and the renewal told it",
    );
  });

  test("is released by a replica that leaves", () => {
    const { join, pass, store, told } = stage(["a"]);
    const x = join("x", { stopMs: () => 10_000 });
    pass(100);
    x.leave();
    store.add("b");
    store.take(x.self, ["b"]);
    pass(3_000);
    expect(told).toEqual(["x: gained a", "x: giving a"]);
    expect(store.holderOf("b")).toBeNull();
    expect(store.holderOf("a")).not.toBeNull();
  });
});

describe("a connector that is deleted and made again under its id", () => {
  test("is run, under another term", () => {
    const { join, pass, store, told } = stage(["a"]);
    const x = join("x");
    pass(100);
    store.leases.delete("a");
    pass(3_000);
    expect(x.runs.size).toBe(0);
    store.add("a");
    pass(3_000);
    expect(x.runs.get("a")).toBe(2);
    expect(told).toEqual(["x: gained a", "x: lost a", "x: gained a"]);
  });

  // Below 2 s no renewal lies between.
  test.each([0, 50, 500, 1_500])("is run also when that took %d ms", (ms) => {
    const { join, pass, store, told, said } = stage(["a", "b"]);
    const x = join("x");
    pass(100);
    store.leases.delete("a");
    pass(ms);
    store.add("a");
    x.poke();
    pass(100);
    expect(told.slice(2)).toEqual(["x: lost a", "x: gained a"]);
    expect([...x.runs]).toEqual([
      ["b", 1],
      ["a", 2],
    ]);
    expect(said()).toContain(
      "info: no longer runs the connector: it was removed, or another replica has its lease",
    );
    pass(60_000);
    expect(told).toHaveLength(4);
  });

  // A state that was restored from a backup.
  test("is run also where its terms begin anew", () => {
    const { join, pass, store } = stage(["a"]);
    const x = join("x");
    pass(100);
    store.leases.set("a", { term: 0, holder: null, endsAt: 0, active: true });
    x.poke();
    pass(3_000);
    expect(store.holderOf("a")).toEqual({ instance: x.self.instance, term: 2 });
    expect(x.runs.get("a")).toBe(2);
  });
});

describe("a replica that leaves", () => {
  test("gives each connector back as its run ends, not after the last, and renews what still runs", () => {
    const { join, pass, told, store, said } = stage(["a", "b"]);
    let stopMs = 0;
    const x = join("x", { stopMs: () => (stopMs += 10_000) });
    pass(100);
    const y = join("y", { weight: 1 });
    y.isCut = true;
    x.leave();
    pass(9_000);
    expect(x.keeper.holds("a") && x.keeper.holds("b")).toBe(true);
    y.isCut = false;
    pass(2_000);
    expect(store.holderOf("a")?.instance).not.toBe("x/0");
    expect(x.keeper.holds("b")).toBe(true);
    pass(10_000);
    expect(told.filter((line) => line.startsWith("x")).slice(2)).toEqual([
      ...["x: giving a", "x: giving b"],
      ...["x: given a", "x: lost a", "x: given b", "x: lost b"],
    ]);
    expect(x.left).toBe(true);
    expect(store.replicas.has("x")).toBe(false);
    expect(said()).toContain("info: left the installation: other replicas run its connectors");
  });

  test("leaves once: a second disposal waits for the first", () => {
    const { join, pass, told } = stage(["a"]);
    const x = join("x");
    pass(100);
    const first = x.keeper[Symbol.asyncDispose]();
    expect(x.keeper[Symbol.asyncDispose]()).toBe(first);
    pass(1_000);
    expect(told).toEqual(["x: gained a", "x: giving a", "x: given a", "x: lost a"]);
  });

  test("ends also while the state is away", () => {
    const { join, pass, network } = stage(["a"]);
    const x = join("x");
    pass(100);
    network.isServerAway = true;
    x.leave();
    pass(10_000);
    expect(x.left).toBe(true);
  });

  test("leaves no row behind when it has just begun to start", () => {
    const { join, pass, store, told } = stage(["a"]);
    const x = join("x");
    x.leave();
    pass(1_000);
    expect([x.left, store.replicas.size, told]).toEqual([true, 0, []]);
  });

  test("does nothing when it never started", () => {
    const { join, pass, said } = stage(["a"]);
    const x = join("x", {}, false);
    x.leave();
    pass(1_000);
    expect([x.left, said()]).toEqual([true, []]);
  });
});

describe("the start", () => {
  test("waits for the lease of the dead one with the same id", () => {
    const { join, pass, told, said } = stage(["a"]);
    const dead = join("x");
    pass(2_500);
    dead.kill();
    const next = join("x");
    pass(4_000);
    expect(next.started).toBe("joining");
    pass(3_000);
    expect(next.started).toBe("joined");
    expect([...next.runs]).toEqual([["a", 2]]);
    expect(told).toEqual(["x: gained a", "x: gained a"]);
    expect(said().filter((line) => line.startsWith("warn"))).toEqual([
      "warn: waits for the replica that has the same id",
    ]);
  });

  test("waits for the state too, which may be away while the dead one's lease ends", () => {
    const { join, pass, network, said } = stage(["a"]);
    const dead = join("x");
    pass(2_500);
    dead.kill();
    const next = join("x");
    pass(1_000);
    network.isServerAway = true;
    pass(60_000);
    expect(next.started).toBe("joining");
    expect(said().filter((line) => line.startsWith("warn"))).toEqual([
      "warn: waits for the replica that has the same id",
      "warn: the state does not answer about leases: trying again",
    ]);
    network.isServerAway = false;
    pass(5_000);
    expect(next.started).toBe("joined");
    expect([...next.runs]).toEqual([["a", 2]]);
  });

  test("fails when that one lives", () => {
    const { join, pass } = stage(["a"]);
    const x = join("x");
    pass(100);
    const twin = join("x");
    pass(12_000);
    expect(twin.started).toMatchObject({ code: "invalid_setting" });
    expect(x.keeper.holds("a")).toBe(true);
  });
});

describe("several replicas", () => {
  test("take over from one that died, and say from which; a minute later it is forgotten", () => {
    const { join, pass, said, store } = stage(["a", "b", "c"]);
    const x = join("x");
    pass(1_000);
    const others = [join("y", { weight: 0 }), join("z", { weight: 1 })];
    pass(5_000);
    expect(others[1]!.runs.size).toBe(1);
    x.kill();
    pass(7_000);
    expect(others[1]!.runs.size).toBe(3);
    expect(said().at(-1)).toBe("warn: took 2 connectors from x, dead");
    pass(62_000);
    expect(store.replicas.has("x")).toBe(false);
    expect(others.flatMap(({ lostReplicas }) => lostReplicas.map(({ id }) => id))).toEqual(["x"]);
  });

  test("tell of one that is lost also when the state's answer is late", () => {
    const { join, pass, store, network, time } = stage();
    const x = join("x");
    const y = join("y");
    pass(1_000);
    x.kill();
    const forgetLost = store.forgetLost.bind(store);
    store.forgetLost = () => {
      const lost = forgetLost();
      if (lost.length > 0) network.faults = { lost: 0, slow: 1, slowMs: 60_000 };
      time.after(0, () => {
        network.faults = noFaults;
      });
      return lost;
    };
    pass(130_000);
    expect(store.replicas.has("x")).toBe(false);
    expect(y.lostReplicas.map(({ id }) => id)).toEqual(["x"]);
  });

  test("say that one may have been removed of which nobody tells, when the state's answer is lost", () => {
    const { join, pass, store, lines } = stage();
    const x = join("x");
    const y = join("y");
    pass(1_000);
    x.kill();
    const forgetLost = store.forgetLost.bind(store);
    store.forgetLost = () => {
      if (forgetLost().length === 0) return [];
      throw new MillraceError("state_unavailable", "The connection was lost.");
    };
    pass(70_000);
    expect(y.lostReplicas).toEqual([]);
    expect(lines.map(({ level, msg }) => `${level}: ${msg}`)).toContain(
      "warn: replicas that are lost may have been removed, and no alert may tell of it",
    );
  });

  test("give a connector back to one that joins, and say why", () => {
    const { join, pass, said, told } = stage(["a", "b", "c"]);
    join("x");
    pass(1_000);
    join("y");
    pass(5_000);
    expect(told.slice(3)).toEqual(["x: giving c", "x: given c", "x: lost c", "y: gained c"]);
    expect(said()).toContain("info: giving a connector back, so that y, which has fewer, runs it");
  });
});

test("a lease that is lost while its run stops, and gained anew, is not lost when the run has stopped", () => {
  const { join, joinApiOnly, pass, told, network } = stage(["a", "b"]);
  joinApiOnly();
  const x = join("x", { stopMs: () => 12_000 });
  pass(1_000);
  const y = join("y");
  while (!told.includes("x: giving b")) pass(10);
  y.kill();
  network.isServerAway = true;
  pass(6_000);
  network.isServerAway = false;
  pass(10_000);
  expect(told.filter((line) => line.endsWith(" b"))).toEqual([
    ...["x: gained b", "x: giving b", "x: lost b", "x: gained b", "x: given b"],
  ]);
  expect(x.keeper.holds("b")).toBe(true);
});

test("no more connectors move than must, also where a view is older than what was given back", () => {
  for (let seed = 0; seed < 100; seed++) {
    const { join, pass, told } = stage(["a", "b"], seed);
    const x = join("x", { stopMs: () => seed % 30 });
    pass(1_000);
    const y = join("y");
    for (let each = 0; each < 500; each++) {
      x.poke();
      pass(3);
    }
    expect([x.runs.size, y.runs.size]).toEqual([1, 1]);
    expect(told.filter((line) => line.includes("giving"))).toHaveLength(1);
  }
});

test("a run that cannot stop in order is told as lost, and its lease is released", () => {
  const { join, pass, said, told, store } = stage(["a", "b"]);
  const x = join("x", {
    stopMs: () => {
      throw new Error("stuck");
    },
  });
  pass(1_000);
  const y = join("y");
  pass(5_000);
  expect(told.slice(2)).toEqual(["x: giving b", "x: lost b", "y: gained b"]);
  expect(said()).toContain("error: a connector did not stop in order when it was given back");
  expect([x.runs.size, y.runs.size, store.leases.get("b")!.term]).toEqual([1, 1, 2]);
});
