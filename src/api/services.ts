// What the API is handed: everything behind HTTP, as interfaces. The runtime implements them; the API neither
// stores nor connects to anything.
//
// - The API has validated every argument against its schema and rules. Nobody else needs to.
// - Errors are MillraceErrors; the API turns them into problem+json by the table of error codes. Anything
//   else that is thrown becomes a 500 that shows an id only.
// - Services return connectors in full form *with* secrets; the API redacts every response
//   (`redactConnector`).
// - What reads and then writes one connector is one step: two calls for the same connector come one after the
//   other, and the second sees what the first stored. Calls for different connectors do not wait for each
//   other.
// - Steps that decide are pure functions of src/connector, named below at the methods that use them.

import type { Catalog } from "../connector/config/catalog.ts";
import type { SinkRequest } from "../connector/config/sink-config.ts";
import type { SourceRequest } from "../connector/config/source-config.ts";
import type {
  Command,
  ConnectorConfig,
  ConnectorRequest,
  ConnectorWithStatus,
} from "../connector/connector.ts";
import type { Diagnosis } from "../connector/diagnosis.ts";
import type { JsonObject } from "../connector/request/merge-patch.ts";
import type { HistoryEntry } from "../connector/status.ts";
import type { Task, TaskRequest } from "../connector/task.ts";
import type { ValidateEvent } from "../connector/validation.ts";

export interface Services {
  readonly connectors: ConnectorService;
  readonly tasks: TaskService;
  readonly inspection: InspectionService;
  readonly doctor: DoctorService;
  readonly health: HealthService;
  readonly snapshots: SnapshotService;
  readonly metrics: MetricsService;
}

export interface ConnectorService {
  /** All connectors, oldest first. */
  list(): Promise<readonly ConnectorWithStatus[]>;

  /** Throws `connector_not_found`. */
  get(id: string): Promise<ConnectorWithStatus>;

  /**
   * Stores a connector under a new id (`newConnectorId`) and starts it unless it is disabled. `request.id` is
   * ignored. Config: `resolveConnector(request, { id, stored: null })`. Durable on return; starting goes on
   * after it. Throws what `resolveConnector` throws, and `conflict` when the slot name is taken.
   */
  create(request: ConnectorRequest): Promise<ConnectorWithStatus>;

  /**
   * Stores a connector under `id`, new or in place of the one that is there. A running one goes on by a new
   * run with the new config. Config: `resolveConnector(request, { id, stored })`, where `stored` is the
   * connector of `cloneFrom` when that is given, else the one that is replaced, else null. Throws
   * `connector_not_found` when `cloneFrom` does not exist, what `resolveConnector` throws, and `conflict`
   * when another connector has the same slot name (`slotName`).
   */
  createOrReplace(
    id: string,
    request: ConnectorRequest,
    cloneFrom: string | null,
  ): Promise<"created" | "replaced">;

  /**
   * Changes a connector: `patchConnector(stored, patch)`, stored and put into effect by a new run.
   * Throws `connector_not_found`, `immutable_field`, `invalid_request`, `missing_secret`, `unsupported_kind`.
   */
  patch(id: string, patch: JsonObject): Promise<ConnectorWithStatus>;

  /**
   * Accepts a command; its effects go on after the return. `Delete` stops the run, drops the slot and the
   * publication that the service made, and removes the connector: `get` fails with `connector_not_found`
   * within seconds. `ForceDelete` does not wait for the source and logs what it left behind. `ReInitialize`
   * and `ReIntialize` are the same. `Start` of a running connector and `Stop` of a stopped one change
   * nothing. Throws `connector_not_found`, and `conflict` while the connector is being deleted.
   */
  command(id: string, command: Command): Promise<void>;

  /** What happened, oldest first, the most recent 1,000 or so. Throws `connector_not_found`. */
  history(id: string): Promise<readonly HistoryEntry[]>;

  /**
   * What would be stored, storing nothing: `resolveConnector(request, { id: request.id, stored })`, `stored`
   * being the connector of `fillFrom`, or null. Throws `connector_not_found` and what `resolveConnector`
   * throws.
   */
  preview(request: ConnectorRequest, fillFrom: string | null): Promise<ConnectorConfig>;
}

export interface TaskService {
  /** The most recent 100, newest first. Throws `connector_not_found`. */
  list(connectorId: string): Promise<readonly Task[]>;

  /** Throws `connector_not_found`, `task_not_found`. */
  get(connectorId: string, taskId: string): Promise<Task>;

  /**
   * A new pending task with `completeTaskSpec(request, connector)`; or the task with the same whole spec that
   * is pending or running (`isSameSpec`), also when two calls race. Never connects to anything. Throws
   * `connector_not_found`, and `conflict` while the connector is being deleted.
   */
  create(connectorId: string, request: TaskRequest): Promise<Task>;

  /** `cancelTask`. Throws `connector_not_found`, `task_not_found`, `conflict`. */
  cancel(connectorId: string, taskId: string): Promise<Task>;

  /** `retryTask`. Throws `connector_not_found`, `task_not_found`, `conflict`. */
  retry(connectorId: string, taskId: string): Promise<Task>;
}

/**
 * Looks at sources and sinks without storing anything. `fillFrom` is the id of the connector that missing
 * secrets come from, or null; an unknown one is `connector_not_found`. Configs: `resolveSource(request,
 * stored)` and `resolveSink(request, stored)`. The signal ends the work when the client went away.
 */
export interface InspectionService {
  /**
   * Throws `source_unreachable`, `source_timeout`, and the source's other errors, which the API shows as 502.
   */
  sourceCatalog(source: SourceRequest, fillFrom: string | null, signal: AbortSignal): Promise<Catalog>;

  /** A check that fails is an event, not an error. Ends within 60 s. */
  validateSource(
    source: SourceRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]>;

  /** A check that fails is an event, not an error. Ends within 60 s. */
  validateSink(
    sink: SinkRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]>;
}

export interface DoctorService {
  /**
   * What is wrong, and what is not, with the service and all its connectors, or with one of them: null is all. It changes nothing.
   * A side that does not answer is a finding, after 30 s at most. Throws `connector_not_found`.
   */
  examine(connectorId: string | null, signal: AbortSignal): Promise<readonly Diagnosis[]>;
}

export interface HealthService {
  /**
   * Whether the service can do its work now: the state store answers, and it is not stopping. Never throws.
   */
  readiness(): Promise<Readiness>;
}

export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string };

export interface SnapshotService {
  /** How many tables are being copied now, over all connectors, and whether some wait for their turn. */
  activity(): SnapshotActivity;
}

export interface SnapshotActivity {
  readonly active: boolean;
  readonly count: number;
  readonly throttled: boolean;
}

export interface MetricsService {
  /** The Prometheus text exposition format, version 0.0.4. */
  text(): Promise<string>;
}
