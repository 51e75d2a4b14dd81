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
      if (notice.what === "lease" || notice.what === "missed") this.#keeper.poke();
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
    const activity = { term, isActive };
    this.#activities.set(connectorId, activity);
    void this.#storeActivity(connectorId, activity);
  }

  /** Gives each connector back as soon as its run has stopped, and leaves. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    this.#endNotices();
    await this.#keeper[Symbol.asyncDispose]();
  }

  /** Until it is stored, or another one is to be. */
  async #storeActivity(id: string, activity: Activity): Promise<void> {
    const { store, log } = this.context;
    while (!this.#isOver && this.#activities.get(id) === activity) {
      try {
        return await store.setActive(id, activity.term, activity.isActive);
      } catch (error) {
        log.warn(
          { connector: id, error },
          "whether a connector is to run could not be told to other replicas",
        );
        await Bun.sleep(activityRetryMs);
      }
    }
  }
}
