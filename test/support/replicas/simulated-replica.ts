// A replica's process in simulated time, with a clock of its own. It can stand still (SIGSTOP) and die (SIGKILL).

import { createLog } from "../../../src/log.ts";
import { LeaseKeeper } from "../../../src/runtime/replicas/lease-keeper.ts";
import type { ReplicaSelf, ReplicaView } from "../../../src/state/stores/lease-store.ts";
import type { MemoryLeases } from "./memory-leases.ts";
import type { Random, SimulatedNetwork } from "./simulated-network.ts";
import type { SimulatedTime } from "./simulated-time.ts";

export interface SimulatedReplicaOptions {
  readonly id: string;
  readonly instance: string;
  readonly weight?: number;
  readonly leaseMs?: number;
  /** How fast its clock goes: 1 ± 0.01. */
  readonly rate?: number;
  /** Where its clock stands at first. */
  readonly offset?: number;
  /** How long a run takes to stop in order. */
  readonly stopMs?: () => number;
  readonly isActive?: (connectorId: string) => boolean;
  readonly log?: (line: string) => void;
}

export interface Installation {
  readonly time: SimulatedTime;
  readonly store: MemoryLeases;
  readonly network: SimulatedNetwork;
  readonly random: Random;
  /** What a replica was told: the test's properties watch it. */
  told?(replica: SimulatedReplica, what: "gained" | "lost" | "giving" | "given", id: string): void;
}

/** One for all: to make a log takes longer than a look. */
const quiet = createLog({ level: "error", readable: false, write: () => {} });

export class SimulatedReplica {
  readonly self: ReplicaSelf;
  readonly keeper: LeaseKeeper;
  /** Terms of the runs that go on, as told. */
  readonly runs = new Map<string, number>();
  readonly giving = new Set<string>();
  readonly lostReplicas: ReplicaView[] = [];
  /** All replicas, as it has told last. */
  seen: readonly ReplicaView[] = [];
  state: "running" | "frozen" | "dead" = "running";
  isCut = false;
  isLeaving = false;
  started: "joining" | "joined" | Error = "joining";
  left = false;
  #waiting: (() => void)[] = [];

  constructor(
    private readonly installation: Installation,
    private readonly options: SimulatedReplicaOptions,
  ) {
    const { id, instance, weight = 1, leaseMs = 6_000 } = options;
    this.self = { id, instance, host: "host", version: "1", weight, leaseMs, startedAt: new Date(0) };
    const { network, store } = installation;
    this.keeper = new LeaseKeeper({
      store: network.leasesFor(
        store,
        () => this.isCut,
        (work) => this.#run(work),
      ),
      self: this.self,
      clock: () => this.clock(),
      log: options.log ? createLog({ level: "debug", readable: false, write: options.log }) : quiet,
      gained: (connector, term) => {
        this.runs.set(connector, term);
        installation.told?.(this, "gained", connector);
      },
      lost: (connector) => {
        this.runs.delete(connector);
        installation.told?.(this, "lost", connector);
      },
      giveBack: (connector) => this.#giveBack(connector),
      isActive: options.isActive ?? (() => true),
      replicaLost: (replica) => void this.lostReplicas.push(replica),
      saw: (replicas) => {
        this.seen = replicas;
      },
      trouble: () => null,
      schedule: (ms, work) => this.schedule(ms, work),
    });
  }

  clock(): number {
    return (this.options.offset ?? 0) + this.installation.time.now * (this.options.rate ?? 1);
  }

  schedule(ms: number, work: () => void): () => void {
    let isCancelled = false;
    this.installation.time.after(ms / (this.options.rate ?? 1), () =>
      this.#run(() => {
        if (!isCancelled) work();
      }),
    );
    return () => {
      isCancelled = true;
    };
  }

  start(): void {
    this.keeper.start().then(
      () => {
        this.started = "joined";
      },
      (error) => {
        this.started = error;
        this.kill();
      },
    );
  }

  /** SIGTERM. */
  leave(): void {
    this.isLeaving = true;
    this.#run(() => {
      void this.keeper[Symbol.asyncDispose]().then(() => {
        this.left = true;
        this.kill();
      });
    });
  }

  kill(): void {
    this.state = "dead";
    this.#waiting = [];
  }

  freeze(): void {
    if (this.state === "running") this.state = "frozen";
  }

  /** All that has come meanwhile runs now, in any order, but for `first`. */
  thaw(first: () => void = () => {}): void {
    if (this.state !== "frozen") return;
    this.state = "running";
    first();
    const waiting = this.#waiting;
    this.#waiting = [];
    while (waiting.length > 0) {
      const [work] = waiting.splice(Math.floor(this.installation.random() * waiting.length), 1);
      this.installation.time.after(0, () => this.#run(work!));
    }
  }

  poke(): void {
    this.#run(() => this.keeper.poke());
  }

  #run(work: () => void): void {
    if (this.state === "running") work();
    else if (this.state === "frozen") this.#waiting.push(work);
  }

  #giveBack(connector: string): Promise<void> {
    this.giving.add(connector);
    const term = this.runs.get(connector);
    this.installation.told?.(this, "giving", connector);
    return new Promise((resolve) => {
      this.schedule(this.options.stopMs?.() ?? 100, () => {
        this.giving.delete(connector);
        // Lost meanwhile, and perhaps gained anew.
        if (this.runs.get(connector) === term) this.runs.delete(connector);
        this.installation.told?.(this, "given", connector);
        resolve();
      });
    });
  }
}
