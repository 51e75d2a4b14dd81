// This process among the replicas that share a state: it keeps leases, tells the others which of its connectors are to run, and hears
// of what they change.

import type { Log } from "../../log.ts";
import type { Notice, Notices } from "../../state/notices.ts";
import type {
  InstallationView,
  LeaseStore,
  ReplicaSelf,
  ReplicaView,
} from "../../state/stores/lease-store.ts";
import { leaseClock } from "./lease-clock.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { schedule } from "./schedule.ts";

export interface MembershipContext {
  readonly store: LeaseStore;
  readonly notices: Notices;
  readonly self: ReplicaSelf;
  readonly log: Log;
  /** What is wrong with this replica, for the others to show. */
  trouble(): string | null;
  /** A replica has died; of all that see it, one is told. */
  replicaLost(replica: ReplicaView): void;
  /** All replicas, as the state had them just now. Must not throw. */
  saw(replicas: readonly ReplicaView[]): void;
  gained(connectorId: string, term: number): void;
  /** Everything of its run must end at once. Also called when it was given back, and nothing goes on. */
  lost(connectorId: string): void;
  /** Resolves when its run has ended in order. */
  giveBack(connectorId: string): Promise<void>;
  /** Another replica has changed something. Must not throw. */
  noticed(notice: Notice): void;
}

interface Activity {
  readonly term: number;
  readonly isActive: boolean;
}

const activityRetryMs = 1_000;

export class Membership implements AsyncDisposable {
  readonly #keeper: LeaseKeeper;
  /** Whether held connectors are to run. */
  readonly #activities = new Map<string, Activity>();
  /** Connectors whose activity is being stored: one statement at a time, as an older one must not come last. */
  readonly #storing = new Set<string>();
  #endNotices = () => {};
  #isOver = false;

  constructor(private readonly context: MembershipContext) {
    const { store, self, log } = context;
    this.#keeper = new LeaseKeeper({
      store,
      self,
      log,
      clock: leaseClock(),
      schedule,
      gained: (id, term) => context.gained(id, term),
      lost: (id) => {
        this.#activities.delete(id);
        context.lost(id);
      },
      giveBack: (id) => context.giveBack(id),
      isActive: (id) => this.#activities.get(id)?.isActive ?? true,
      replicaLost: (replica) => context.replicaLost(replica),
      saw: (replicas) => context.saw(replicas),
      trouble: () => context.trouble(),
    });
  }

  /** The installation as read last; null: not yet. */
  get view(): InstallationView | null {
    return this.#keeper.view;
  }

  /** Joins the others. Throws `invalid_setting` when one of them has this replica's id. */
  async start(): Promise<void> {
    this.#endNotices = this.context.notices.listen((notice) => {
      // One that this replica does not hold may be new. Its lease is made with it, and no notice tells of that.
      const mayBeNew = notice.what === "connector" && !this.holds(notice.connector);
      if (mayBeNew || notice.what === "lease" || notice.what === "missed") this.#keeper.poke();
      this.context.noticed(notice);
    });
    await this.#keeper.start();
  }

  /** Whether this replica may still run the connector. */
  holds(connectorId: string): boolean {
    return this.#keeper.holds(connectorId);
  }

  /** A connector that this replica does not hold may be wanted to run. */
  poke(): void {
    this.#keeper.poke();
  }

  /** Tells the others whether a connector counts as load. */
  activityChanged(connectorId: string, term: number, isActive: boolean): void {
    this.#activities.set(connectorId, { term, isActive });
    if (!this.#storing.has(connectorId)) void this.#storeActivity(connectorId);
  }

  /** Gives each connector back as soon as its run has stopped, and leaves. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    this.#endNotices();
    await this.#keeper[Symbol.asyncDispose]();
  }

  /** Until the latest one is stored. */
  async #storeActivity(id: string): Promise<void> {
    const { store, log } = this.context;
    this.#storing.add(id);
    let known: Activity | undefined;
    for (;;) {
      const activity = this.#activities.get(id);
      if (this.#isOver || activity === known || activity === undefined) break;
      try {
        await store.setActive(id, activity.term, activity.isActive);
        known = activity;
      } catch (error) {
        log.warn(
          { connector: id, error },
          "whether a connector is to run could not be told to other replicas",
        );
        await Bun.sleep(activityRetryMs);
      }
    }
    this.#storing.delete(id);
  }
}
