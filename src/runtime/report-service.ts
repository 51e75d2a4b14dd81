// Answers the API's requests about the service itself.

import type { ReportService } from "../api/services.ts";
import type { ReplicaList, ServiceReport, SettingReport } from "../connector/service-report.ts";
import type { StatusBoard } from "./status/status-board.ts";
import type { ThreadWatch } from "./threads/thread-watch.ts";

export interface ReportContext {
  readonly board: StatusBoard;
  readonly threads: ThreadWatch;
  readonly version: string;
  readonly startedAt: Date;
  readonly stateKind: ServiceReport["state"]["kind"];
  /** Without secrets. */
  readonly settings: readonly SettingReport[];
  readonly replicaId: string;
  readonly host: string;
  readonly now: () => Date;
  readonly residentBytes: () => number;
}

export class LiveReportService implements ReportService {
  constructor(private readonly context: ReportContext) {}

  service(): ServiceReport {
    const { threads, version, startedAt, stateKind, settings, residentBytes } = this.context;
    return {
      ...{ version, started_at: startedAt.toISOString(), state: { kind: stateKind } },
      threads: threads.loopDelays().map(({ connector, thread, loopDelayMs }) => {
        return { connector_id: connector, thread, loop_delay_ms: loopDelayMs };
      }),
      memory: { resident_bytes: residentBytes() },
      settings: [...settings],
    };
  }

  replicas(): ReplicaList {
    const { board, version, startedAt, replicaId: id, host, now } = this.context;
    const held = [...board.phases().values()].filter(({ state }) => !isAtRest(state));
    const times = { started_at: startedAt.toISOString(), seen_at: now().toISOString() };
    return { replicas: [{ ...{ id, host, version }, ...times, connectors: held.length }], this: id };
  }
}

/** Nobody wants it to run. */
function isAtRest(state: string): boolean {
  return state === "shutdown" || state === "disabled";
}
