// Answers the API's requests about the service itself.

import type { ReportService } from "../api/services.ts";
import type {
  Replica,
  ReplicaList,
  ServiceReport,
  SettingReport,
} from "../connector/service/service-report.ts";
import type { InstallationView, ReplicaView } from "../state/stores/lease-store.ts";
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
  readonly weight: number;
  /** The replicas as they were read last; null: there is this one alone, or they were not read yet. */
  readonly view: () => InstallationView | null;
  readonly now: () => Date;
  readonly residentBytes: () => number;
}

export class LiveReportService implements ReportService {
  constructor(private readonly context: ReportContext) {}

  service(): ServiceReport {
    const { threads, version, startedAt, stateKind, settings, residentBytes } = this.context;
    return {
      version,
      started_at: startedAt.toISOString(),
      state: { kind: stateKind },
      threads: threads.loopDelays().map(({ connector, thread, loopDelayMs }) => {
        return { connector_id: connector, thread, loop_delay_ms: loopDelayMs };
      }),
      memory: { resident_bytes: residentBytes() },
      settings: [...settings],
    };
  }

  replicas(): ReplicaList {
    const view = this.context.view();
    const replicas = view ? view.replicas.map(replicaOf).sort(byId) : [this.#alone()];
    return { replicas, this: this.context.replicaId };
  }

  #alone(): Replica {
    const { board, version, startedAt, replicaId: id, host, weight, now } = this.context;
    const held = [...board.phases().values()].filter(({ state }) => !isAtRest(state));
    const times = { started_at: startedAt.toISOString(), seen_at: now().toISOString() };
    return { id, host, version, weight, alive: true, ...times, connectors: held.length };
  }
}

function replicaOf({ id, host, version, weight, ...facts }: ReplicaView): Replica {
  return {
    id,
    host,
    version,
    weight,
    alive: facts.isAlive,
    started_at: facts.startedAt.toISOString(),
    seen_at: facts.seenAt.toISOString(),
    connectors: facts.active,
  };
}

function byId(a: Replica, b: Replica): number {
  return a.id < b.id ? -1 : 1;
}

/** Nobody wants it to run. */
function isAtRest(state: string): boolean {
  return state === "shutdown" || state === "disabled";
}
