// Replicas that stand still, die, join and leave, with a bad network to the state; and what must hold whatever happens. When the faults
// end, the connectors must be held, evenly, and stay where they are.

import { MemoryLeases } from "./memory-leases.ts";
import { noFaults, randomFrom, SimulatedNetwork } from "./simulated-network.ts";
import { type Installation, SimulatedReplica } from "./simulated-replica.ts";
import { SimulatedTime } from "./simulated-time.ts";

export const leaseMs = 6_000;

export type FaultKind =
  | ("freeze" | "kill" | "restart" | "join" | "leave" | "cut" | "twin")
  | ("server away" | "create" | "delete" | "replace" | "toggle");

export interface Fault {
  readonly kind: FaultKind;
  /** After the fault before it. */
  readonly afterMs: number;
  /** Which replica, or connector. */
  readonly which: number;
  readonly forMs: number;
}

export interface Scenario {
  readonly seed: number;
  readonly connectors: number;
  readonly replicas: readonly {
    readonly weight: number;
    readonly permille: number;
    readonly offset: number;
  }[];
  /** Shares of messages that are lost and slow, in percent. */
  readonly lost: number;
  readonly slow: number;
  readonly slowMs: number;
  readonly faults: readonly Fault[];
  /** Without them, a change of leases is seen by looking alone. */
  readonly hasNotices: boolean;
}

/** Times since the end of the faults. */
export interface Recovery {
  readonly heldAfterMs: number;
  readonly evenAfterMs: number;
  readonly moves: number;
}

export class LeaseScenario {
  readonly time = new SimulatedTime();
  readonly #random;
  readonly network: SimulatedNetwork;
  readonly store: MemoryLeases;
  readonly replicas: SimulatedReplica[] = [];
  /** How often a connector was gained, lost or given. */
  moves = 0;
  readonly #givenAt = new Map<string, number>();
  readonly #lastTerms = new Map<string, number>();
  /** The last term of the connector that an id had before. Whoever holds that one still has not heard that it is gone. */
  readonly #replacedAt = new Map<string, number>();
  /** A replica may have been told nothing yet in the moment in which it wakes. */
  readonly #woke = new Map<SimulatedReplica, number>();
  #created = 0;
  readonly #installation: Installation;

  constructor(private readonly scenario: Scenario) {
    this.#random = randomFrom(scenario.seed);
    this.network = new SimulatedNetwork(this.time, this.#random);
    this.store = new MemoryLeases(
      () => this.time.now,
      (by) => this.#notify(by),
    );
    this.#installation = {
      time: this.time,
      store: this.store,
      network: this.network,
      random: this.#random,
      told: (replica, what, id) => this.#told(replica, what, id),
    };
    for (let each = 0; each < scenario.connectors; each++) this.#create();
    for (const replica of scenario.replicas) this.#join(replica);
  }

  /** Throws when a promise is broken. */
  run(quietRenewals: number): Recovery {
    const { lost, slow, slowMs, faults } = this.scenario;
    this.network.faults = { lost: lost / 100, slow: slow / 100, slowMs };
    for (const fault of faults) {
      this.#runUntil(this.time.now + fault.afterMs);
      this.#begin(fault);
    }
    this.#runUntil(this.time.now + leaseMs);
    return this.#recover(quietRenewals);
  }

  #recover(quietRenewals: number): Recovery {
    const end = this.time.now;
    this.network.faults = noFaults;
    this.network.cleanFrom = end;
    this.network.isServerAway = false;
    for (const replica of this.replicas) {
      replica.isCut = false;
      this.#thaw(replica);
    }
    if (!this.replicas.some((replica) => this.#isAble(replica)))
      this.#join({ weight: 1, permille: 0, offset: 0 });
    this.time.runUntil(end + 2 * leaseMs, () => this.#areAllHeld());
    const heldAfterMs = this.time.now - end;
    // A lease that the faults have cost may end after that moment.
    this.time.runUntil(end + 2 * leaseMs);
    if (!this.#areAllHeldOrGiven())
      throw new Error(`not held two leases after the faults: ${this.#describe()}`);
    this.time.runUntil(end + 60_000, () => this.#isEven());
    if (!this.#isEven()) throw new Error(`not even a minute after the faults: ${this.#describe()}`);
    const evenAfterMs = this.time.now - end;
    // What was decided before this moment.
    this.time.runUntil(this.time.now + leaseMs);
    const moves = this.moves;
    this.time.runUntil(this.time.now + (quietRenewals * leaseMs) / 3);
    if (this.moves !== moves) throw new Error(`something moved while nothing changed: ${this.#describe()}`);
    if (!this.#areAllHeld() || !this.#isEven()) throw new Error(`no longer even: ${this.#describe()}`);
    return { heldAfterMs, evenAfterMs, moves };
  }

  #runUntil(moment: number): void {
    while (this.time.now < moment) {
      this.time.runUntil(Math.min(moment, this.time.now + this.#random() * 2_000));
      this.#checkAll();
    }
  }

  // --- faults --------------------------------------------------------------------------------

  #begin({ kind, which, forMs }: Fault): void {
    const replica = this.replicas[which % this.replicas.length]!;
    const ids = [...this.store.leases.keys()];
    const id = ids[which % Math.max(1, ids.length)] ?? "";
    const later = (work: () => void) => this.time.after(forMs, work);
    switch (kind) {
      case "freeze":
        replica.freeze();
        later(() => this.#thaw(replica));
        break;
      case "kill":
        replica.kill();
        break;
      case "restart":
        replica.kill();
        this.#join({ weight: replica.self.weight, permille: 0, offset: 0 }, replica.self.id);
        break;
      case "twin":
        this.#join({ weight: replica.self.weight, permille: 0, offset: 0 }, replica.self.id);
        break;
      case "join":
        this.#join({ weight: 1 + (which % 3), permille: (which % 21) - 10, offset: 0 });
        break;
      case "leave":
        replica.leave();
        break;
      case "cut":
        replica.isCut = true;
        later(() => {
          replica.isCut = false;
        });
        break;
      case "server away":
        this.network.isServerAway = true;
        later(() => {
          this.network.isServerAway = false;
        });
        break;
      case "create":
        this.#create();
        break;
      case "delete":
        this.store.leases.delete(id);
        break;
      case "replace":
        if (!this.store.leases.delete(id)) break;
        this.time.after(forMs / 10, () => {
          this.store.add(id, this.#random() < 0.8);
          this.#replacedAt.set(id, this.store.leases.get(id)!.term);
          this.#notify("");
        });
        break;
      case "toggle": {
        const lease = this.store.leases.get(id);
        if (lease) lease.active = !lease.active;
        break;
      }
      default:
        kind satisfies never;
    }
  }

  #join(as: Scenario["replicas"][number], id = `replica-${this.replicas.length}`): void {
    const replica = new SimulatedReplica(this.#installation, {
      id,
      instance: `${id}/${this.replicas.length}`,
      weight: as.weight,
      rate: 1 + as.permille / 1000,
      offset: as.offset,
      stopMs: () => this.#random() * 500,
      isActive: (connector) => this.store.leases.get(connector)?.active ?? false,
    });
    this.replicas.push(replica);
    replica.start();
  }

  #create(): void {
    const id = `connector-${this.#created++}`;
    this.store.add(id, this.#random() < 0.8);
    this.#notify("");
  }

  #thaw(replica: SimulatedReplica): void {
    if (replica.state !== "frozen") return;
    this.#woke.set(replica, this.time.now);
    replica.thaw(() => {
      if (this.#random() < 0.5) this.#checkAll();
    });
  }

  #notify(by: string): void {
    if (!this.scenario.hasNotices) return;
    for (const replica of this.replicas) {
      if (replica.self.instance !== by)
        this.network.send(
          () => replica.poke(),
          () => replica.isCut,
        );
    }
  }

  // --- what must hold ------------------------------------------------------------------------

  #told(replica: SimulatedReplica, what: "gained" | "lost" | "giving" | "given", id: string): void {
    this.moves += 1;
    if (what === "given") this.#givenAt.set(id, this.time.now);
    if (what === "gained") this.#checkGained(replica, id);
    const mayGiveSeveral = replica.isLeaving;
    if (replica.giving.size > 1 && !mayGiveSeveral)
      throw new Error(`two given at once by ${replica.self.instance}`);
  }

  #checkGained(replica: SimulatedReplica, id: string): void {
    const term = replica.runs.get(id)!;
    const last = this.#lastTerms.get(id) ?? 0;
    if (term <= last) throw new Error(`${id} was gained under term ${term} after ${last}`);
    this.#lastTerms.set(id, term);
    const stored = this.store.holderOf(id);
    if (this.store.leases.has(id) && (stored?.instance !== replica.self.instance || stored.term !== term)) {
      throw new Error(`${id} was gained, and the state says ${JSON.stringify(stored)}`);
    }
    for (const other of this.replicas) {
      if (other === replica || other.state !== "running" || !this.#runs(other, id)) continue;
      if (this.#woke.get(other) !== this.time.now && !this.#isAlone(other))
        throw new Error(`${id} still runs at ${other.self.instance}`);
    }
    this.#checkExclusive(id);
  }

  /** As far as it knows. */
  #isAlone({ keeper, self }: SimulatedReplica): boolean {
    const others = keeper.view?.replicas.filter(({ instance }) => instance !== self.instance);
    return others?.every(({ isAlive }) => !isAlive) ?? false;
  }

  #runs({ runs }: SimulatedReplica, id: string): boolean {
    return (runs.get(id) ?? 0) > (this.#replacedAt.get(id) ?? 0);
  }

  #checkAll(): void {
    for (const id of this.store.leases.keys()) this.#checkExclusive(id);
  }

  #checkExclusive(id: string): void {
    const holders = this.replicas.filter(
      (replica) => replica.state === "running" && replica.keeper.holds(id) && this.#runs(replica, id),
    );
    // One that took itself for alone goes on under a term that is refused by now.
    const term = this.store.holderOf(id)?.term;
    const refused = holders.filter((replica) => replica.runs.get(id) !== term && this.#isAlone(replica));
    if (holders.length - refused.length > 1)
      throw new Error(`${id} is held by ${holders.map(({ self }) => self.instance)}`);
  }

  // --- the end -------------------------------------------------------------------------------

  /** Whether it runs connectors, or will as soon as the row of a dead one with its id has ended. */
  #isAble({ state, isLeaving, started, self }: SimulatedReplica): boolean {
    if (state !== "running" || isLeaving || self.weight === 0 || started !== "joined") return false;
    const row = this.store.replicas.get(self.id)?.self.instance ?? self.instance;
    return (
      row === self.instance ||
      this.replicas.every((other) => other.self.instance !== row || other.state === "dead")
    );
  }

  #areAllHeld(): boolean {
    return [...this.store.leases.keys()].every((id) => this.#isHeld(id));
  }

  #isHeld(id: string): boolean {
    const holders = this.replicas.filter(
      (replica) => replica.state === "running" && replica.keeper.holds(id),
    );
    const stored = this.store.holderOf(id);
    return holders.length === 1 && stored !== null && holders[0]!.runs.get(id) === stored.term;
  }

  /** One that was given back lately is on its way. */
  #areAllHeldOrGiven(): boolean {
    const isOnItsWay = (id: string) => this.time.now - (this.#givenAt.get(id) ?? -leaseMs) < leaseMs;
    return [...this.store.leases.keys()].every((id) => this.#isHeld(id) || isOnItsWay(id));
  }

  #isEven(): boolean {
    const isChanging = ({ state, isLeaving, started, giving }: SimulatedReplica) =>
      state !== "dead" && (isLeaving || started === "joining" || giving.size > 0);
    // The state takes it for alive, so connectors may be given back for it.
    const hasRow = ({ self, state }: SimulatedReplica) => state === "dead" && this.store.isAlive(self);
    if (this.replicas.some((replica) => isChanging(replica) || hasRow(replica))) return false;
    const able = this.replicas.filter((replica) => this.#isAble(replica));
    const counts = (isActive: boolean) =>
      able.map(({ runs, self }) => ({
        weight: self.weight,
        count: [...runs.keys()].filter((id) => this.store.leases.get(id)?.active === isActive).length,
      }));
    return (
      this.#areAllHeld() &&
      [true, false].every((isActive) => {
        const all = counts(isActive);
        return all.every((a) => all.every((b) => a.count * b.weight <= (b.count + 1) * a.weight));
      })
    );
  }

  #describe(): string {
    const replicas = this.replicas.map(
      ({ self, state, started, isLeaving, runs }) =>
        `${self.instance} (${state}, ${started}, weight ${self.weight}${isLeaving ? ", leaving" : ""}): ${[...runs.keys()]}`,
    );
    return `${replicas.join("; ")}; state: ${JSON.stringify([...this.store.leases])} at ${this.time.now}`;
  }
}
