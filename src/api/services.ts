// The services behind the API, as interfaces that the runtime implements. The API itself neither stores anything nor
// connects to anything.
//
// - The API has validated every argument against its schema and rules. Nobody else needs to.
// - Errors are MillraceErrors, which the API turns into problem+json by the table of error codes. Any other exception becomes a
//   500 that shows an id only.
// - Services return connectors *with* secrets. The API redacts every response (`redactConnector`). A stored connector is
//   in given form (`givenForm`), a new one and a preview in full form.
// - Reading and then writing one connector is atomic: calls for the same connector run one by one, and the second sees what
//   the first has stored. Calls for different connectors do not wait for each other.
// - Decisions are pure functions of src/connector, named at the methods that use them.

import type { BufferRequest } from "../connector/config/buffer-config.ts";
import type { Catalog } from "../connector/config/catalog.ts";
import type { SinkRequest } from "../connector/config/sink-config.ts";
import type { SourceRequest } from "../connector/config/source-config.ts";
import type {
  Command,
  ConnectorConfig,
  ConnectorRequest,
  ConnectorWithStatus,
  GivenConnector,
} from "../connector/connector.ts";
import type { ExplainRequest, Explanation } from "../connector/explanation.ts";
import type { Parked, ParkedChoice, ParkedList, ParkedPageRequest } from "../connector/parked-message.ts";
import type { JsonObject } from "../connector/request/merge-patch.ts";
import type { Precondition } from "../connector/request/precondition.ts";
import type { Diagnosis } from "../connector/service/diagnosis.ts";
import type { SampleList } from "../connector/service/samples.ts";
import type { ReplicaList, ServiceReport } from "../connector/service/service-report.ts";
import type { HistoryEntry } from "../connector/status.ts";
import type { TableStatus } from "../connector/table-status.ts";
import type { Task, TaskRequest } from "../connector/task.ts";
import type { ValidateEvent } from "../connector/validation.ts";

export interface Services {
  readonly connectors: ConnectorService;
  readonly tasks: TaskService;
  readonly parked: ParkedService;
  readonly explain: ExplainService;
  readonly inspection: InspectionService;
  readonly doctor: DoctorService;
  readonly health: HealthService;
  readonly snapshots: SnapshotService;
  readonly metrics: MetricsService;
  readonly events: EventService;
  readonly samples: SampleService;
  readonly report: ReportService;
}

export interface ConnectorService {
  /** All connectors, oldest first. */
  list(): Promise<readonly GivenConnector[]>;

  /** Throws `connector_not_found`. */
  get(id: string): Promise<GivenConnector>;

  /**
   * Stores a connector under a new id (`newConnectorId`) and starts it unless it is disabled. Ignores `request.id`.
   * Config: `resolveConnector(request, { id, stored: null })`. Durable on return; the start continues afterwards.
   * Throws what `resolveConnector` throws, and `conflict` when the slot name is taken.
   */
  create(request: ConnectorRequest): Promise<ConnectorWithStatus>;

  /**
   * Stores a connector under `id`, new or replacing the existing one. A running connector continues in a new run with
   * the new config. Config: `resolveConnector(request, { id, stored, replaces })`, where `stored` is the connector
   * `cloneFrom` if that is given, else the one that it `replaces`, else null. One whose config stays the same goes on
   * undisturbed. The history says which settings are gone (`removedSettings`). Throws `connector_not_found` when `cloneFrom` does not exist, what
   * `resolveConnector` throws, and `conflict` when another connector has the same slot name (`slotName`). Checks the
   * precondition (`requireCondition`) before anything else, and atomically with the change.
   */
  createOrReplace(
    id: string,
    request: ConnectorRequest,
    cloneFrom: string | null,
    precondition?: Precondition,
  ): Promise<"created" | "replaced">;

  /**
   * Changes a connector to `patchConnector(given, patch)`, which takes effect in a new run. Throws
   * `connector_not_found`, `immutable_field`, `invalid_request`, `missing_secret`, `unsupported_kind`. The precondition is
   * checked as by `createOrReplace`.
   */
  patch(id: string, patch: JsonObject, precondition?: Precondition): Promise<GivenConnector>;

  /**
   * Accepts a command; its effects continue after the return. `Delete` stops the run, drops the slot and the
   * publication that the service created, and removes the connector: within seconds `get` throws `connector_not_found`.
   * `ForceDelete` does not wait for the source, and logs what it leaves behind. `ReInitialize` and `ReIntialize` are
   * the same. `Start` of a running connector and `Stop` of a stopped one change nothing. Throws `connector_not_found`,
   * `conflict` while the connector is being deleted, and what `refusalOfResume` returns. The precondition is checked as by
   * `patch`.
   */
  command(id: string, command: Command, precondition?: Precondition): Promise<void>;

  /** The status history, oldest first, about the last 1,000 records. Throws `connector_not_found`. */
  history(id: string): Promise<readonly HistoryEntry[]>;

  /** Where the connector's tables stand, by schema and name, as its run reported last. Throws `connector_not_found`. */
  tables(id: string): Promise<readonly TableStatus[]>;

  /**
   * What would be stored, without storing it: `resolveConnector(request, { id: request.id, stored })`, where `stored`
   * is the connector `fillFrom`, or null. Throws `connector_not_found` and what `resolveConnector` throws.
   */
  preview(request: ConnectorRequest, fillFrom: string | null): Promise<ConnectorConfig>;
}

export interface TaskService {
  /** The most recent 100, newest first. Throws `connector_not_found`. */
  list(connectorId: string): Promise<readonly Task[]>;

  /** Throws `connector_not_found`, `task_not_found`. */
  get(connectorId: string, taskId: string): Promise<Task>;

  /**
   * Creates a pending task with `completeTaskSpec(request, connector)`, or returns the pending or running task with the
   * same complete spec (`isSameSpec`), even if two calls race. Never connects to anything. Throws
   * `connector_not_found`, and `conflict` while the connector is being deleted.
   */
  create(connectorId: string, request: TaskRequest): Promise<Task>;

  /** `cancelTask`. Throws `connector_not_found`, `task_not_found`, `conflict`. */
  cancel(connectorId: string, taskId: string): Promise<Task>;

  /** `retryTask`. Throws `connector_not_found`, `task_not_found`, `conflict`. */
  retry(connectorId: string, taskId: string): Promise<Task>;
}

/** Messages that a receiver refused, and those that wait behind them. All throw `connector_not_found`. */
export interface ParkedService {
  /** In the order in which they were parked. */
  list(connectorId: string, request: ParkedPageRequest): Promise<ParkedList>;

  /** Throws `parked_not_found`. */
  get(connectorId: string, id: string, withBody: boolean): Promise<Parked>;

  /** Durable on return; the connector's run sends them, now or when it is started. Throws `parked_not_found` of one message. */
  retry(connectorId: string, choice: ParkedChoice): Promise<{ readonly count: number }>;

  /** Durable on return. `by`: who asked for it, for the record. Throws `parked_not_found` of one message. */
  discard(connectorId: string, choice: ParkedChoice, by: string): Promise<{ readonly count: number }>;
}

export interface ExplainService {
  /**
   * What became of the last known change of a row, and of earlier ones. Throws `connector_not_found`, `unsupported_kind` for a sink that sends no
   * requests, and `invalid_request` for a table that is not carried and a key that does not fit it.
   */
  explain(connectorId: string, request: ExplainRequest): Promise<Explanation>;
}

/**
 * Inspects sources and sinks without storing anything. `fillFrom` is the id of the connector that missing secrets come
 * from, or null; an unknown id is `connector_not_found`. Configs: `resolveSource(request, stored)` and
 * `resolveSink(request, stored)`. The signal fires when the client has gone away.
 */
export interface InspectionService {
  /** Throws `source_unreachable`, `source_timeout`, and the source's other errors, which the API returns as 502. */
  sourceCatalog(source: SourceRequest, fillFrom: string | null, signal: AbortSignal): Promise<Catalog>;

  /** A failed check is an event, not an error. Returns within 10 s. */
  validateSource(
    source: SourceRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]>;

  /** A failed check is an event, not an error. Returns within 10 s. */
  validateSink(
    sink: SinkRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]>;

  /** Whether the service can buffer so. Connects to nothing. */
  validateBuffer(buffer: BufferRequest, fillFrom: string | null): Promise<readonly ValidateEvent[]>;
}

export interface DoctorService {
  /**
   * Examines the service and one of its connectors, or all (null), and reports what is wrong and what is not. Changes
   * nothing. A side that does not answer becomes a finding after 30 s. Throws `connector_not_found`.
   */
  examine(connectorId: string | null, signal: AbortSignal): Promise<readonly Diagnosis[]>;
}

export interface HealthService {
  /** Whether the service can work now: the state store answers, and the service is not stopping. Never throws. */
  readiness(): Promise<Readiness>;
}

export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string };

export interface SnapshotService {
  /** How many tables are being copied, over all connectors, and whether others wait. */
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

export interface EventService {
  /**
   * Follows what happens from now on, or since the event `lastEventId`. Throws `too_many_clients`, and
   * `state_unavailable` when the service is stopping.
   */
  follow(lastEventId: string | null): EventFollower;
}

export interface EventFollower {
  /** The id to resume from while there was no event; null: the events that come first have theirs. */
  readonly position: string | null;

  /**
   * Takes the events that wait: those that have come since the last call. Without any, it waits for `withinMs` at most,
   * and returns none. Null: there will be no more. One call at a time. A follower that takes too little gets the event
   * `reset` in place of what it missed.
   */
  next(withinMs: number): Promise<readonly FollowedEvent[] | null>;

  /** Ends it. More calls change nothing. */
  close(): void;
}

export interface FollowedEvent {
  readonly id: string;
  /** A key of `eventSchemas`. */
  readonly event: string;
  /** JSON, without line breaks. */
  readonly data: string;
}

export interface SampleService {
  /**
   * The samples of one connector in the last hour, or those of all (null) in the last ten minutes. With `sinceMs`, in
   * milliseconds since the epoch: only steps that end later, of the last hour. Throws `connector_not_found`.
   */
  read(connectorId: string | null, sinceMs: number | null): Promise<SampleList>;
}

export interface ReportService {
  /** The service about itself. No secret is in it. */
  service(): ServiceReport;

  /** The replicas of the installation. */
  replicas(): ReplicaList;
}
