// Decides what of all that happens is an event: what changes somebody's picture of a connector, a task or a replica, and not each
// measurement of its progress.

import type { ServiceEvent } from "../../connector/service/service-event.ts";
import type { ConnectorStatus, SetAsideTable, Status } from "../../connector/status.ts";
import type { Task } from "../../connector/task.ts";
import type { ReplicaView } from "../../state/stores/lease-store.ts";
import type { TaskWatch } from "../../state/stores/task-store.ts";
import type { StatusWatch } from "../status/status-watch.ts";

/** The progress of a task is told at most this often. */
const progressMs = 2_000;

export interface RuntimeEventsContext {
  /** `key`: what the event is about, where only the last event about it counts. */
  readonly publish: (event: ServiceEvent, key: string | null) => void;
  readonly status: (connectorId: string) => ConnectorStatus;
  readonly runId: (connectorId: string) => string | null;
  /** Never set back. */
  readonly monotonicMs: () => number;
}

interface Told {
  /** As JSON. */
  status: string;
  tables: string;
  /** When the progress of each running task was told. */
  readonly progressMs: Map<string, number>;
}

/** Neither blocks nor throws: what it is told comes from where it happens, or from what other replicas have reported. */
export class RuntimeEvents implements StatusWatch, TaskWatch {
  readonly #told = new Map<string, Told>();
  /** What was told of each replica, as JSON; null: they have not been seen yet. */
  #replicas: ReadonlyMap<string, string> | null = null;

  constructor(private readonly context: RuntimeEventsContext) {}

  /** It was there before anybody followed. */
  connectorKnown(connectorId: string): void {
    this.#toldOf(connectorId);
  }

  connectorCreated(connectorId: string): void {
    this.#toldOf(connectorId);
    this.#publishConnector(connectorId, "created");
  }

  connectorChanged(connectorId: string): void {
    this.#publishConnector(connectorId, "changed");
  }

  reported(connectorId: string, status: Status): void {
    const told = this.#toldOf(connectorId);
    const text = JSON.stringify([this.context.runId(connectorId), status]);
    if (told.status === text) return;
    told.status = text;
    this.#publishStatus(connectorId);
  }

  setAside(connectorId: string, tables: readonly SetAsideTable[]): void {
    const told = this.#toldOf(connectorId);
    const text = JSON.stringify(tables);
    if (told.tables === text) return;
    told.tables = text;
    this.#publishStatus(connectorId);
  }

  forget(connectorId: string): void {
    // Of a connector that was not stored after all nobody has heard.
    if (this.#told.delete(connectorId)) this.#publishConnector(connectorId, "deleted");
  }

  taskChanged(connectorId: string, task: Task): void {
    this.#toldOf(connectorId).progressMs.delete(task.id);
    this.#publishTask(connectorId, task);
  }

  taskProgressed(connectorId: string, task: Task): void {
    const told = this.#toldOf(connectorId).progressMs;
    const nowMs = this.context.monotonicMs();
    const lastMs = told.get(task.id);
    if (lastMs !== undefined && nowMs - lastMs < progressMs) return;
    told.set(task.id, nowMs);
    this.#publishTask(connectorId, task);
  }

  /** All replicas, as the state has them now. */
  sawReplicas(replicas: readonly Pick<ReplicaView, "id" | "instance" | "isAlive" | "active">[]): void {
    const before = this.#replicas;
    const seen = replicas.map(
      ({ id, ...facts }) => [id, JSON.stringify([facts.instance, facts.isAlive, facts.active])] as const,
    );
    const now = new Map(seen);
    this.#replicas = now;
    if (before === null) return;
    for (const [id, text] of now)
      if (before.get(id) !== text) this.#publishReplica(id, before.has(id) ? "changed" : "joined");
    for (const id of before.keys()) if (!now.has(id)) this.#publishReplica(id, "left");
  }

  #publishReplica(id: string, change: "joined" | "changed" | "left"): void {
    this.context.publish({ event: "replica", data: { replica_id: id, change } }, `replica ${id}`);
  }

  #publishStatus(connectorId: string): void {
    const { context } = this;
    const run_id = context.runId(connectorId) ?? "";
    const data = { connector_id: connectorId, run_id, status: context.status(connectorId) };
    context.publish({ event: "status", data }, `status ${connectorId}`);
  }

  #publishConnector(connectorId: string, change: "created" | "changed" | "deleted"): void {
    this.context.publish({ event: "connector", data: { connector_id: connectorId, change } }, null);
  }

  #publishTask(connectorId: string, task: Task): void {
    const data = { connector_id: connectorId, task };
    this.context.publish({ event: "task", data }, `task ${connectorId} ${task.id}`);
  }

  #toldOf(connectorId: string): Told {
    const existing = this.#told.get(connectorId);
    if (existing) return existing;
    const told = { status: "", tables: "[]", progressMs: new Map<string, number>() };
    this.#told.set(connectorId, told);
    return told;
  }
}
