// Wires what a replica needs that shares its state with others: its leases decide what the supervisor runs here, and what runs
// elsewhere is shown by its holder's reports.

import { toMillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { Notice } from "../../state/notices.ts";
import type { SharedState, State } from "../../state/open-state.ts";
import type { ReplicaSelf, ReplicaView } from "../../state/stores/lease-store.ts";
import type { EventHub } from "../events/event-hub.ts";
import type { RuntimeEvents } from "../events/runtime-events.ts";
import type { StatusBoard } from "../status/status-board.ts";
import { LocalStatuses } from "../status/statuses.ts";
import type { Supervisor, SupervisorContext } from "../supervisor.ts";
import { Membership } from "./membership.ts";
import { ReplicaBoards } from "./replica-boards.ts";
import { schedule } from "./schedule.ts";

export interface SharingContext {
  readonly state: State;
  readonly shared: SharedState;
  readonly self: ReplicaSelf;
  readonly board: StatusBoard;
  readonly events: RuntimeEvents;
  readonly hub: EventHub;
  readonly log: Log;
  readonly monotonicMs: () => number;
  /** What is wrong with this replica, for the others to show. */
  trouble(): string | null;
  /** A replica has died; of all that see it, one is told. */
  replicaLost(replica: ReplicaView): void;
}

export class Sharing implements AsyncDisposable {
  readonly #membership: Membership;
  #supervisor!: Supervisor;
  #boards!: ReplicaBoards;
  #isDeaf = false;

  constructor(private readonly context: SharingContext) {
    const { shared, self, log } = context;
    this.#membership = new Membership({
      store: shared.leases,
      notices: shared.notices,
      self,
      log,
      trouble: () => context.trouble(),
      replicaLost: (replica) => context.replicaLost(replica),
      saw: (replicas) => context.events.sawReplicas(replicas),
      gained: (id, term) => {
        this.#boards.gained(id, term);
        this.#supervisor.hold(id, term);
      },
      lost: (id) => {
        this.#boards.lost(id);
        this.#supervisor.cut(id);
      },
      giveBack: (id) => this.#supervisor.giveBack(id),
      noticed: (notice) => this.#noticed(notice),
    });
  }

  /** What the supervisor asks and tells. */
  get forSupervisor(): Pick<SupervisorContext, "mayRun" | "wanted" | "activityChanged"> {
    const membership = this.#membership;
    return {
      mayRun: (id) => membership.holds(id),
      wanted: () => membership.poke(),
      activityChanged: (id, term, isActive) => {
        if (term !== null) membership.activityChanged(id, term, isActive);
      },
    };
  }

  /** Call it once, before the start. Returns what shows all connectors, wherever they run. */
  connect(supervisor: Supervisor): ReplicaBoards {
    const { state, shared, self, board, events, hub, log, monotonicMs } = this.context;
    this.#supervisor = supervisor;
    this.#boards = new ReplicaBoards({
      board,
      events,
      hub,
      log,
      monotonicMs,
      schedule,
      connectors: state.connectors,
      tasks: state.tasks,
      reports: shared.reports,
      notices: shared.notices,
      local: new LocalStatuses(board, supervisor),
      replicaId: self.id,
      instance: self.instance,
      holds: (id) => supervisor.holds(id),
      view: () => this.#membership.view,
    });
    return this.#boards;
  }

  /** Joins the others. Throws `invalid_setting` when one of them has this replica's id. */
  async start(): Promise<void> {
    await this.#boards.start();
    await this.#membership.start();
  }

  /** Gives each connector back as soon as its run has stopped, and leaves. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#membership[Symbol.asyncDispose]();
    await this.#boards[Symbol.asyncDispose]();
  }

  #noticed(notice: Notice): void {
    switch (notice.what) {
      case "connector":
        // A change of one that others hold is theirs.
        if (this.#supervisor.holds(notice.connector)) this.#supervisor.reconcile(notice.connector);
        break;
      case "task":
        this.#supervisor.dispatchTasks(notice.connector);
        break;
      case "missed":
        this.#tellDeafness(notice.error);
        this.#supervisor.reconcileHeld();
        break;
      case "lease":
        break;
      default:
        notice satisfies never;
    }
  }

  /** Once, until notices come again. */
  #tellDeafness(error: unknown): void {
    const isDeaf = error !== undefined;
    if (isDeaf && !this.#isDeaf) {
      this.context.log.warn(
        { error: toMillraceError(error, "state_unavailable") },
        "the state's server refuses the session that hears what other replicas change: it is looked for every 10 s instead",
      );
    }
    this.#isDeaf = isDeaf;
  }
}
