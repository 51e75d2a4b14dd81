// Makes the services of the API from the parts of a running service.

import { randomBytes } from "node:crypto";
import type { EventService, SampleService, Services } from "./api/services.ts";
import type { Settings } from "./config.ts";
import { examineDisk } from "./doctor/disk-space.ts";
import { LiveDoctorService } from "./doctor/doctor-service.ts";
import { SharedDoctorService } from "./doctor/shared-doctor-service.ts";
import { type ConnectorWatch, StoredConnectorService } from "./runtime/connector-service.ts";
import { StoredExplainService } from "./runtime/explain/explain-service.ts";
import { LiveInspectionService } from "./runtime/inspection-service.ts";
import type { PrometheusMetricsService } from "./runtime/metrics/metrics-service.ts";
import { StoredParkedService } from "./runtime/parked-service.ts";
import { LiveReportService } from "./runtime/report-service.ts";
import { LiveSnapshotService } from "./runtime/snapshot-service.ts";
import { type LiveHealthService, stateTrouble, threadTrouble } from "./runtime/status/health-service.ts";
import type { StatusBoard } from "./runtime/status/status-board.ts";
import type { Statuses } from "./runtime/status/statuses.ts";
import type { Supervisor } from "./runtime/supervisor.ts";
import { StoredTaskService } from "./runtime/task-service.ts";
import type { ThreadWatch } from "./runtime/threads/thread-watch.ts";
import { validateSink } from "./sink/registry.ts";
import { examineSource, readSourceCatalog, validateSource } from "./source/registry.ts";
import { usesDirectory } from "./state/open-database.ts";
import type { State } from "./state/open-state.ts";
import type { InstallationView, ReplicaSelf } from "./state/stores/lease-store.ts";

export interface ServiceParts {
  readonly state: State;
  readonly board: StatusBoard;
  readonly statuses: Statuses;
  readonly threads: ThreadWatch;
  readonly supervisor: Supervisor;
  readonly metrics: PrometheusMetricsService;
  readonly now: () => Date;
  readonly watch: ConnectorWatch;
  readonly events: EventService;
  readonly samples: SampleService;
  readonly version: string;
  readonly self: ReplicaSelf;
  /** The installation as read last; null: this replica is alone, or has not read it yet. */
  readonly view: () => InstallationView | null;
  readonly settings: Settings;
  readonly health: LiveHealthService;
}

export function createServices(parts: ServiceParts): Services {
  const { state, statuses, metrics, health, events, samples, settings } = parts;
  const newId = () => Bun.randomUUIDv7();
  const doctor = new LiveDoctorService({
    connectors: async () => {
      const [connectors, parked] = await Promise.all([state.connectors.list(), state.parked.totals(null)]);
      return connectors.map(({ id, config, initialized, runId }) => ({
        config,
        initialized,
        status: statuses.status({ id, runId }),
        parked: parked.get(id),
      }));
    },
    stateTrouble: () => stateTrouble(state),
    threadTrouble: () => threadTrouble(parts.threads),
    examineDisk: () => examineDisk(usesDirectory(settings) ? settings.dataDirectory : null),
    installation: parts.view,
    now: parts.now,
    examineSource,
    validateSource,
    validateSink,
  });
  const connectors = new StoredConnectorService({ ...parts, newRunId: newId, randomBytes });
  return {
    doctor: new SharedDoctorService(doctor),
    connectors,
    tasks: new StoredTaskService({ ...parts, newTaskId: newId }),
    parked: new StoredParkedService(state),
    explain: new StoredExplainService({ ...parts, connectors, nowMs: Date.now }),
    inspection: new LiveInspectionService({ state, readSourceCatalog, validateSource, validateSink }),
    snapshots: new LiveSnapshotService(statuses),
    health,
    metrics,
    events,
    samples,
    report: createReport(parts),
  };
}

function createReport(parts: ServiceParts): LiveReportService {
  const { databaseUrl, report } = parts.settings;
  return new LiveReportService({
    ...parts,
    ...parts.self,
    settings: report,
    replicaId: parts.self.id,
    stateKind: databaseUrl === null ? "Embedded" : "Postgres",
    residentBytes: () => process.memoryUsage.rss(),
  });
}
