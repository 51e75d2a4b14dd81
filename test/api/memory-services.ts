// The API's services in memory. They keep their promises, without a source or a sink.

import type {
  ConnectorService,
  ExplainService,
  FollowedEvent,
  InspectionService,
  ParkedService,
  Readiness,
  Services,
  TaskService,
} from "../../src/api/services.ts";
import type { Catalog } from "../../src/connector/config/catalog.ts";
import type { ConnectorRequest, ConnectorWithStatus, GivenConnector } from "../../src/connector/connector.ts";
import { newConnectorId, slotName } from "../../src/connector/connector-id.ts";
import type { ParkedChoice } from "../../src/connector/parked-message.ts";
import { completeConnector } from "../../src/connector/request/complete-connector.ts";
import { completeTaskSpec } from "../../src/connector/request/complete-task-spec.ts";
import { patchConnector } from "../../src/connector/request/patch-connector.ts";
import { requireCondition, unconditional } from "../../src/connector/request/precondition.ts";
import {
  resolveConnector,
  resolveGiven,
  resolveSink,
  resolveSource,
} from "../../src/connector/request/resolve-connector.ts";
import { fine } from "../../src/connector/service/diagnosis.ts";
import { stepSeconds } from "../../src/connector/service/samples.ts";
import type { HistoryEntry } from "../../src/connector/status.ts";
import type { Task } from "../../src/connector/task.ts";
import {
  cancelTask,
  isSameSpec,
  newTask,
  retryTask,
  unfinishedStates,
} from "../../src/connector/task-state.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";

interface Stored {
  readonly given: ConnectorRequest;
  /** In full form. */
  record: ConnectorWithStatus;
  readonly tasks: Task[];
  readonly history: HistoryEntry[];
}

export interface MemoryServices extends Services {
  readonly stored: Map<string, Stored>;
  readonly inspected: { kind: string; config: unknown }[];
  catalog: () => Promise<Catalog>;
  readiness: Readiness;
  /** What a client that follows gets. Then its stream ends, so that a test reads it to its end. */
  told: readonly Omit<FollowedEvent, "id">[];
}

export function memoryServices(): MemoryServices {
  const stored = new Map<string, Stored>();
  const inspected: { kind: string; config: unknown }[] = [];
  const services: MemoryServices = {
    stored,
    inspected,
    catalog: async () => ({ name: "shop", default_action: "Exclude", schemas: [] }),
    readiness: { ready: true },
    told: [{ event: "connector", data: '{"connector_id":"orders","change":"created"}' }],
    connectors: connectorService(stored),
    tasks: taskService(stored),
    parked: parkedService(stored),
    explain: explainService(stored),
    inspection: inspectionService(stored, inspected, () => services.catalog()),
    doctor: {
      examine: async (id) => {
        if (id !== null) find(stored, id);
        return [{ connector: id, ...fine("state", "All is well.") }];
      },
    },
    health: { readiness: async () => services.readiness },
    snapshots: { activity: () => ({ active: false, count: 0, throttled: false }) },
    events: {
      follow: (lastEventId) => {
        let events = services.told.map((event, n) => ({ id: `memory-${n + 1}`, ...event }));
        return {
          position: lastEventId === null ? "memory-0" : null,
          next: async () => {
            if (events.length === 0) return null;
            const taken = events;
            events = [];
            return taken;
          },
          close: () => {},
        };
      },
    },
    samples: {
      read: async (id) => {
        if (id !== null) find(stored, id);
        const nothing = { rows_in: [1, null], rows_durable: [1, null], bytes_durable: [9, null] };
        const gauges = { lag_seconds: [0.5, null], lag_bytes: [7, null] };
        const ids = id === null ? [...stored.keys()] : [id];
        const first_at = new Date(now()).toISOString();
        return {
          step_seconds: stepSeconds,
          samples: ids.map((connector_id) => ({ connector_id, first_at, ...nothing, ...gauges })),
        };
      },
    },
    report: {
      service: () => ({
        version: "0.0.0-test",
        started_at: new Date(0).toISOString(),
        state: { kind: "Embedded" },
        threads: [{ connector_id: null, thread: "main", loop_delay_ms: 0.5 }],
        memory: { resident_bytes: 1 },
        settings: [{ name: "MILLRACE_HOST", value: "127.0.0.1", source: "Default", secret: false }],
      }),
      replicas: () => {
        const at = { started_at: new Date(0).toISOString(), seen_at: new Date(now()).toISOString() };
        const replica = {
          id: "memory-1",
          host: "memory",
          version: "0.0.0-test",
          alive: true,
          weight: 1,
          ...at,
        };
        return { replicas: [{ ...replica, connectors: stored.size }], this: "memory-1" };
      },
    },
    metrics: { text: async () => "# HELP millrace_up Whether the service runs.\nmillrace_up 1\n" },
  };
  return services;
}

const now = () => Date.now();
const someTime = new Date(0).toISOString();

function find(stored: Map<string, Stored>, id: string): Stored {
  const found = stored.get(id);
  if (!found) throw new MillraceError("connector_not_found", "There is no connector of this id.");
  return found;
}

function connectorService(stored: Map<string, Stored>): ConnectorService {
  const configOf = (id: string | null) => (id === null ? null : find(stored, id).record.connector);

  const shown = ({ given, record }: Stored): GivenConnector => ({ ...record, connector: given });

  function put(given: ConnectorRequest): Stored {
    const connector = completeConnector(given, given.id);
    for (const id of stored.keys()) {
      if (id !== connector.id && slotName(id) === slotName(connector.id)) {
        throw new MillraceError("conflict", "Another connector has the same slot name.");
      }
    }
    const created_at = stored.get(connector.id)?.record.created_at ?? new Date(now()).toISOString();
    const record: ConnectorWithStatus = {
      connector,
      status: { state: connector.disabled ? { disabled: {} } : { start: {} }, status: { start: {} } },
      run_id: Bun.randomUUIDv7(),
      created_at,
    };
    const entry = { id: Bun.randomUUIDv7(), connector_id: connector.id, run_id: record.run_id };
    const status = { state: record.status.state, status: record.status.status };
    const before = stored.get(connector.id);
    const put: Stored = {
      given,
      record,
      tasks: before?.tasks ?? [],
      history: [
        ...(before?.history ?? []),
        { ...entry, component: "Connector", status, created_at: new Date(now()).toISOString() },
      ],
    };
    stored.set(connector.id, put);
    return put;
  }

  return {
    list: async () => [...stored.values()].map(shown),
    get: async (id) => shown(find(stored, id)),
    create: async (request) => {
      const id = newConnectorId(now(), (count) => crypto.getRandomValues(new Uint8Array(count)));
      return put(resolveGiven(request, { id, stored: null })).record;
    },
    createOrReplace: async (id, request, cloneFrom, precondition = unconditional) => {
      requireCondition(id, stored.get(id)?.given ?? null, precondition);
      const replaced = stored.get(id)?.record.connector ?? null;
      const filler = cloneFrom === null ? replaced : configOf(cloneFrom);
      put(resolveGiven(request, { id, stored: filler, replaces: cloneFrom === null && replaced !== null }));
      return replaced ? "replaced" : "created";
    },
    patch: async (id, patch, precondition = unconditional) => {
      const { given } = find(stored, id);
      requireCondition(id, given, precondition);
      return shown(put(patchConnector(given, patch)));
    },
    command: async (id, command, precondition = unconditional) => {
      const found = find(stored, id);
      requireCondition(id, found.given, precondition);
      if (command === "Delete" || command === "ForceDelete") stored.delete(id);
      else if (command === "Stop")
        found.record.status = { state: { shutdown: {} }, status: { complete: {} } };
      else put(found.given);
    },
    history: async (id) => find(stored, id).history,
    tables: async (id) => {
      find(stored, id);
      return [
        {
          schema: "public",
          name: "orders",
          state: "Streaming",
          rows_in: 3,
          last_change_at: someTime,
          history: false,
        },
        {
          schema: "public",
          name: "visits",
          state: "Excluded",
          rows_in: 0,
          history: false,
          reason: "It is unlogged.",
        },
      ];
    },
    preview: async (request, fillFrom) =>
      resolveConnector(request, { id: request.id, stored: configOf(fillFrom) }),
  };
}

/** Nothing is parked. */
function parkedService(stored: Map<string, Stored>): ParkedService {
  const none = (id: string) => new MillraceError("parked_not_found", `No message ${id} is parked.`);
  const moved = async (connectorId: string, choice: ParkedChoice) => {
    find(stored, connectorId);
    if ("id" in choice) throw none(choice.id);
    return { count: 0 };
  };
  return {
    list: async (connectorId) => {
      find(stored, connectorId);
      return { parked: [], next: null, total: 0, asked: 0, as_of: "2026-01-01T00:00:00.000Z" };
    },
    get: async (connectorId, id) => {
      find(stored, connectorId);
      throw none(id);
    },
    retry: moved,
    discard: moved,
  };
}

function explainService(stored: Map<string, Stored>): ExplainService {
  return {
    explain: async (connectorId, { schema, name, key }) => {
      find(stored, connectorId);
      const change = { lsn: "0/15D4F90", committed_at: someTime, op: "u" as const };
      return {
        schema,
        name,
        key,
        state: "Delivered",
        summary: "The row was delivered.",
        last_change: change,
        durable: true,
        parked: [],
        deliveries: [
          {
            idempotency_key: "018bcfe5-6803-7b54-a1b2-c3d4e5f60718",
            at: someTime,
            status: 204,
            ms: 12,
            outcome: "delivered",
            attempts: 1,
            first_at: someTime,
            change,
          },
        ],
        open: [],
        receipts: { hours: 24, since: someTime },
      };
    },
  };
}

function taskService(stored: Map<string, Stored>): TaskService {
  function move(connectorId: string, taskId: string, change: (task: Task) => Task): Task {
    const { tasks } = find(stored, connectorId);
    const index = tasks.findIndex(({ id }) => id === taskId);
    const task = tasks[index];
    if (!task) throw new MillraceError("task_not_found", "There is no task of this id.");
    const changed = change(task);
    tasks[index] = changed;
    return changed;
  }

  return {
    list: async (connectorId) => find(stored, connectorId).tasks.toReversed().slice(0, 100),
    get: async (connectorId, taskId) => move(connectorId, taskId, (task) => task),
    create: async (connectorId, request) => {
      const { record, tasks } = find(stored, connectorId);
      const spec = completeTaskSpec(request, record.connector);
      const same = tasks.find((task) => unfinishedStates.includes(task.state) && isSameSpec(task.spec, spec));
      if (same) return same;
      const task = newTask(Bun.randomUUIDv7(), spec, now());
      tasks.push(task);
      return task;
    },
    cancel: async (connectorId, taskId) => move(connectorId, taskId, cancelTask),
    retry: async (connectorId, taskId) => move(connectorId, taskId, retryTask),
  };
}

function inspectionService(
  stored: Map<string, Stored>,
  inspected: { kind: string; config: unknown }[],
  catalog: () => Promise<Catalog>,
): InspectionService {
  const configOf = (id: string | null) => (id === null ? null : find(stored, id).record.connector);
  return {
    sourceCatalog: async (source, fillFrom) => {
      inspected.push({ kind: "catalog", config: resolveSource(source, configOf(fillFrom)) });
      return catalog();
    },
    validateSource: async (source, fillFrom) => {
      inspected.push({ kind: "source", config: resolveSource(source, configOf(fillFrom)) });
      return [{ start: {} }, { success: {} }];
    },
    validateSink: async (sink, fillFrom) => {
      inspected.push({ kind: "sink", config: resolveSink(sink, configOf(fillFrom)) });
      return [{ start: {} }, { failed: { reason: "The sink cannot be reached." } }];
    },
    validateBuffer: async (config, fillFrom) => {
      configOf(fillFrom);
      inspected.push({ kind: "buffer", config });
      return [{ start: {} }, { success: {} }];
    },
  };
}
