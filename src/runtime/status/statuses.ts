// What the API shows of connectors' runs, wherever they are: by this replica's status board where it holds the connector,
// else by what the replica that does has reported last.

import {
  type CopyLoad,
  type Reading,
  type RunReport,
  reportForm,
} from "../../connector/service/run-report.ts";
import type { ConnectorStatus } from "../../connector/status.ts";
import type { TableStatus } from "../../connector/table-status.ts";
import type { Supervisor } from "../supervisor.ts";
import { sumOfLoads } from "./copy-load.ts";
import type { MeasuredRun, StatusBoard } from "./status-board.ts";
import { phaseOf, starting } from "./status-lines.ts";

export interface Statuses {
  /** `stored`: a run that nobody has reported on yet is starting. */
  status(stored: { readonly id: string; readonly runId: string }): ConnectorStatus;
  /** The run that was reported on last; null: nobody has reported. */
  runId(id: string): string | null;
  /** Whether the connector's run with this id has ended by itself: complete, or failed permanently. */
  isOver(id: string, runId: string): boolean;
  /** By schema and name. */
  tables(id: string, runId: string): Promise<readonly TableStatus[]>;
  readings(): ReadonlyMap<string, Reading>;
  /** Tables being copied and waiting, everywhere. */
  load(): CopyLoad;
}

/** Of the connectors that this replica holds; where there is no other, of all. */
export class LocalStatuses implements Statuses {
  constructor(
    private readonly board: StatusBoard,
    private readonly supervisor: Pick<Supervisor, "isOver" | "taskLoad">,
  ) {}

  status({ id, runId }: { readonly id: string; readonly runId: string }): ConnectorStatus {
    return this.board.runId(id) === runId ? this.board.status(id) : starting;
  }

  runId(id: string): string | null {
    return this.board.runId(id);
  }

  isOver(id: string, runId: string): boolean {
    return this.supervisor.isOver(id, runId);
  }

  async tables(id: string, runId: string): Promise<readonly TableStatus[]> {
    return this.board.tables.list(id, runId);
  }

  readings(): ReadonlyMap<string, Reading> {
    return new Map([...this.board.metrics()].map(([id, measured]) => [id, readingOf(measured)]));
  }

  load(): CopyLoad {
    return sumOfLoads([...this.board.phases().keys()].map((id) => this.loadOf(id)));
  }

  /** What other replicas are to know of the connector; null: nothing has been reported here yet. */
  report(id: string): RunReport | null {
    const runId = this.board.runId(id);
    if (runId === null) return null;
    const status = this.board.status(id);
    const measured = this.board.measurement(id);
    return {
      form: reportForm,
      run_id: runId,
      status,
      reading: measured && readingOf(measured),
      is_over: this.supervisor.isOver(id, runId),
      load: this.loadOf(id),
      phase: phaseOf(status),
    };
  }

  /** Of one connector, with what tasks copy. */
  loadOf(id: string): CopyLoad {
    return sumOfLoads([this.board.copyLoad(id), this.supervisor.taskLoad(id)]);
  }
}

/** What another replica has reported of a connector. */
export interface ReportElsewhere {
  /** The instance that wrote it. */
  readonly holder: string;
  readonly report: RunReport;
}

export interface ReportsElsewhere {
  latest(id: string): ReportElsewhere | null;
  all(): Iterable<readonly [id: string, ReportElsewhere]>;
  tables(id: string): Promise<readonly TableStatus[]>;
}

export interface SharedStatusesContext {
  readonly local: LocalStatuses;
  readonly reports: ReportsElsewhere;
  /** Whether this replica holds the connector. */
  readonly holds: (id: string) => boolean;
  /** This replica's id. */
  readonly replicaId: string;
  /** The id of a replica by its instance; null: it is not known, or no longer lives. */
  readonly replicaOf: (holder: string) => string | null;
  /** Whether the connector is to run, and no replica has taken it for a while. */
  readonly isLeftAlone: (id: string) => boolean;
}

export class SharedStatuses implements Statuses {
  constructor(private readonly context: SharedStatusesContext) {}

  status(stored: { readonly id: string; readonly runId: string }): ConnectorStatus {
    const { local, reports, holds, replicaId, replicaOf, isLeftAlone } = this.context;
    const { id, runId } = stored;
    if (holds(id)) return { ...local.status(stored), replica: replicaId };
    const known = reports.latest(id);
    const ofRun = known?.report.run_id === runId ? known : null;
    return statusElsewhere(ofRun?.report.status ?? null, {
      replica: known && replicaOf(known.holder),
      isLeftAlone: isLeftAlone(id),
    });
  }

  runId(id: string): string | null {
    const { local, reports, holds } = this.context;
    return holds(id) ? local.runId(id) : (reports.latest(id)?.report.run_id ?? null);
  }

  isOver(id: string, runId: string): boolean {
    const { local, reports, holds } = this.context;
    if (holds(id)) return local.isOver(id, runId);
    const report = reports.latest(id)?.report;
    return report?.run_id === runId && report.is_over;
  }

  async tables(id: string, runId: string): Promise<readonly TableStatus[]> {
    const { local, reports, holds } = this.context;
    return holds(id) ? local.tables(id, runId) : reports.tables(id);
  }

  readings(): ReadonlyMap<string, Reading> {
    const { local, holds, replicaId } = this.context;
    const readings = new Map<string, Reading>();
    // A run that another replica goes on with begins to count anew.
    const add = (id: string, reading: Reading, holder: string) =>
      readings.set(id, { ...reading, runId: `${reading.runId} ${holder}` });
    for (const [id, reading] of local.readings()) if (holds(id)) add(id, reading, replicaId);
    for (const [id, { holder, report }] of this.#elsewhere())
      if (report.reading) add(id, report.reading, holder);
    return readings;
  }

  load(): CopyLoad {
    const elsewhere = [...this.#elsewhere()].map(([, { report }]) => report.load);
    return sumOfLoads([this.context.local.load(), ...elsewhere]);
  }

  /** Of connectors that somebody holds, as far as is known, and not this replica. */
  *#elsewhere(): Iterable<readonly [string, ReportElsewhere]> {
    const { reports, holds, isLeftAlone } = this.context;
    for (const [id, known] of reports.all()) if (!holds(id) && !isLeftAlone(id)) yield [id, known];
  }
}

/** `reported` null: nobody has reported on the present run yet. Pure. */
function statusElsewhere(
  reported: ConnectorStatus | null,
  holder: { readonly replica: string | null; readonly isLeftAlone: boolean },
): ConnectorStatus {
  // The last report was right when its replica lived.
  if (holder.isLeftAlone) return { state: starting.state, status: { warning: { reason: leftAlone } } };
  const status = reported ?? starting;
  return holder.replica === null ? status : { ...status, replica: holder.replica };
}

const leftAlone =
  "No replica runs it: none has taken it over. GET /api/v1/replicas shows which of them live; one whose weight is 0 takes nothing.";

function readingOf(measured: MeasuredRun): Reading {
  const { runId, rowsIn, rowsDurable, bytesDurable, lagSeconds, lagBytes } = measured;
  return { runId, rowsIn, rowsDurable, bytesDurable, lagSeconds, lagBytes };
}
