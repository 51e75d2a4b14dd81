// What a replica knows of connectors that others run, and tells others of its own: reports, events and the installation.
// Who holds what is the keeper's; it tells what this replica gains, and the status board what it releases.

import type { Log } from "../../log.ts";
import type { Notice, Notices } from "../../state/notices.ts";
import type { InstallationView } from "../../state/stores/lease-store.ts";
import type { TaskStore } from "../../state/stores/task-store.ts";
import type { ConnectorWatch } from "../connector-service.ts";
import type { EventHub } from "../events/event-hub.ts";
import type { RuntimeEvents } from "../events/runtime-events.ts";
import type { StatusBoard } from "../status/status-board.ts";
import { type LocalStatuses, type ReportElsewhere, SharedStatuses } from "../status/statuses.ts";
import { ChangeFollower, type ChangeFollowerContext } from "./change-follower.ts";
import { Installation } from "./installation.ts";
import { ReportReader, type ReportReaderContext } from "./report-reader.ts";
import { ReportWriter, type ReportWriterContext } from "./report-writer.ts";

export interface ReplicaBoardsContext {
  readonly board: StatusBoard;
  readonly local: LocalStatuses;
  readonly events: RuntimeEvents;
  readonly hub: Pick<EventHub, "reset">;
  readonly connectors: ChangeFollowerContext["connectors"];
  readonly tasks: Pick<TaskStore, "find">;
  readonly reports: ReportWriterContext["store"] & ReportReaderContext["store"];
  readonly notices: Notices;
  readonly replicaId: string;
  readonly instance: string;
  /** Whether this replica holds the connector now, by the clock. */
  readonly holds: (connectorId: string) => boolean;
  /** What the keeper has read last; null: nothing yet. */
  readonly view: () => InstallationView | null;
  readonly log: Log;
  /** Never set back. */
  readonly monotonicMs: () => number;
  /** Returns what ends it. */
  readonly schedule: (ms: number, work: () => void) => () => void;
}

export class ReplicaBoards implements AsyncDisposable {
  readonly statuses: SharedStatuses;
  readonly installation: Installation;
  /** Is to hear what this replica itself stores of connectors. */
  readonly watch: ConnectorWatch;
  readonly #changes: ChangeFollower;
  readonly #writer: ReportWriter;
  readonly #reader: ReportReader;
  #endListening: () => void = () => {};

  constructor(private readonly context: ReplicaBoardsContext) {
    const { board, local, holds, instance, replicaId, log, monotonicMs, schedule } = context;
    const timing = { log, monotonicMs, schedule };
    this.installation = new Installation(context.view);
    this.#reader = new ReportReader({
      ...timing,
      store: context.reports,
      self: instance,
      hasOthers: () => this.installation.hasOthers(instance),
      came: (id, report) => this.#came(id, report),
    });
    this.#writer = new ReportWriter({
      ...timing,
      store: context.reports,
      holder: instance,
      holds,
      hasOthers: () => this.installation.hasOthers(instance),
      report: (id) => local.report(id),
      tables: board.tables,
    });
    this.statuses = new SharedStatuses({
      local,
      holds,
      replicaId,
      reports: this.#reader,
      replicaOf: (holder) => this.installation.replicaOf(holder),
      isLeftAlone: (id) => this.installation.isLeftAlone(id),
    });
    const { events } = context;
    this.#changes = new ChangeFollower({
      log,
      schedule,
      connectors: context.connectors,
      tasks: context.tasks,
      events,
      missed: () => context.hub.reset(),
      gone: (id) => board.forget(id),
    });
    this.watch = {
      connectorCreated: (id) => {
        this.#changes.connectorCreated(id);
        events.connectorCreated(id);
      },
      connectorChanged: (id) => {
        this.#changes.connectorChanged(id);
        events.connectorChanged(id);
      },
    };
    for (const watch of [this.#writer, this.#changes]) board.addWatch(watch);
    board.addWatch({ forget: (id) => this.#reader.forget(id) });
  }

  /** Learns what there is, and follows from then on. */
  async start(): Promise<void> {
    this.#endListening = this.context.notices.listen((notice) => this.#noticed(notice));
    await this.#changes.start();
    this.#reader.start();
  }

  /** This replica holds the connector from now on. */
  gained(connectorId: string, term: number): void {
    this.#reader.forget(connectorId);
    this.#writer.gained(connectorId, term);
  }

  /** It no longer may: nothing more is written of it, also while its run ends. */
  lost(connectorId: string): void {
    this.#writer.lost(connectorId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#endListening();
    await Promise.all([this.#reader, this.#writer, this.#changes].map((part) => part[Symbol.asyncDispose]()));
  }

  #noticed(notice: Notice): void {
    // A crash of the state's server, which empties the table of reports, ends the session that listens.
    if (notice.what === "missed") this.#writer.writeAllAgain();
    this.#changes.noticed(notice);
  }

  #came(id: string, { report }: ReportElsewhere): void {
    if (this.context.holds(id)) return;
    const { state, status, tables_set_aside: tables = [] } = report.status;
    this.context.events.reported(id, { state, status });
    this.context.events.setAside(id, tables);
  }
}
