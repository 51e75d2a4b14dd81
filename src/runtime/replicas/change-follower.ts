// Makes events of what other replicas change in the state: connectors and tasks. A notice names what has changed; it is
// read, and compared with what was known. Where notices were missed, clients read everything again.

import type { Task } from "../../connector/task.ts";
import { unfinishedStates } from "../../connector/task-state.ts";
import type { Log } from "../../log.ts";
import type { Notice } from "../../state/notices.ts";
import type { StoredConnector } from "../../state/stores/connector-store.ts";
import type { StatusWatch } from "../status/status-watch.ts";

type Described = Pick<StoredConnector, "id" | "given" | "createdAt">;

export interface ChangeFollowerContext {
  readonly connectors: {
    list(): Promise<readonly Described[]>;
    find(id: string): Promise<Described | null>;
  };
  readonly tasks: { find(connectorId: string, taskId: string): Promise<Task | null> };
  readonly events: {
    connectorKnown(connectorId: string): void;
    connectorCreated(connectorId: string): void;
    connectorChanged(connectorId: string): void;
    taskChanged(connectorId: string, task: Task): void;
    taskProgressed(connectorId: string, task: Task): void;
  };
  /** Clients have to read everything again. */
  readonly missed: () => void;
  /** Another replica has deleted the connector: everything about it is to be forgotten, which tells the clients too. */
  readonly gone: (connectorId: string) => void;
  readonly log: Pick<Log, "warn">;
  /** Returns what ends it. */
  readonly schedule: (ms: number, work: () => void) => () => void;
}

const retryMs = 1_000;

interface Known {
  /** Null: this replica has changed it, and has not read it since. */
  given: bigint | null;
  createdMs: number;
  /** What was told last of each unfinished task. */
  readonly tasks: Map<string, string>;
}

export class ChangeFollower implements StatusWatch, AsyncDisposable {
  readonly #known = new Map<string, Known>();
  /** Notices to work off, in their order. Another one about the same thing says nothing more. */
  readonly #waiting = new Map<string, Notice>();
  #working: Promise<void> | null = null;
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(private readonly context: ChangeFollowerContext) {}

  /** Learns what there is. Nothing of it is an event. */
  async start(): Promise<void> {
    for (const connector of await this.context.connectors.list()) this.#learn(connector);
  }

  /** Must be told what other replicas have changed, and may be told more. */
  noticed(notice: Notice): void {
    if (notice.what === "lease" || this.#isClosed) return;
    this.#waiting.set(JSON.stringify(notice), notice);
    this.#work();
  }

  /** This replica has stored it, and has told so. */
  connectorCreated(connectorId: string): void {
    this.connectorChanged(connectorId);
  }

  /** This replica has changed it, and has told so. */
  connectorChanged(connectorId: string): void {
    const known = this.#known.get(connectorId);
    if (known) known.given = null;
    else this.#known.set(connectorId, { given: null, createdMs: 0, tasks: new Map() });
  }

  forget(connectorId: string): void {
    this.#known.delete(connectorId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#working;
  }

  #work(): void {
    if (this.#working || this.#isClosed) return;
    this.#cancel?.();
    this.#cancel = null;
    this.#working = this.#workOff().finally(() => {
      this.#working = null;
      if (this.#waiting.size > 0 && !this.#isClosed)
        this.#cancel = this.context.schedule(retryMs, () => this.#work());
    });
  }

  async #workOff(): Promise<void> {
    for (const [key, notice] of this.#waiting) {
      if (this.#isClosed) return;
      // First: what changes while it is read brings it here again.
      this.#waiting.delete(key);
      try {
        await this.#follow(notice);
      } catch (error) {
        this.#waiting.set(key, notice);
        this.context.log.warn({ error }, "a change by another replica cannot be read, and is told later");
        return;
      }
    }
  }

  async #follow(notice: Notice): Promise<void> {
    switch (notice.what) {
      case "connector":
        return this.#followConnector(notice.connector);
      case "task":
        return this.#followTask(notice.connector, notice.task);
      case "missed":
        return this.#lookAtAll();
      case "lease":
        return;
      default:
        return notice satisfies never;
    }
  }

  async #followConnector(id: string): Promise<void> {
    const found = await this.context.connectors.find(id);
    const known = this.#known.get(id);
    if (!found) {
      if (known) this.#forgetGone(id);
      return;
    }
    const isAnother = known && known.createdMs > 0 && known.createdMs !== found.createdAt.getTime();
    if (isAnother) this.#forgetGone(id);
    const isNew = this.#learn(found);
    if (isNew === "new") this.context.events.connectorCreated(id);
    else if (isNew === "other") this.context.events.connectorChanged(id);
  }

  async #followTask(connectorId: string, taskId: string): Promise<void> {
    const task = await this.context.tasks.find(connectorId, taskId);
    // Its connector is gone, or has not been heard of: that notice comes too.
    const told = this.#known.get(connectorId)?.tasks;
    if (!task || !told) return;
    const { state, attempt, reason, next_attempt_at } = task;
    const text = JSON.stringify([state, attempt, reason, next_attempt_at]);
    const isProgress = told.get(taskId) === text;
    if (unfinishedStates.includes(state)) told.set(taskId, text);
    else told.delete(taskId);
    if (isProgress) this.context.events.taskProgressed(connectorId, task);
    else this.context.events.taskChanged(connectorId, task);
  }

  async #lookAtAll(): Promise<void> {
    const all = await this.context.connectors.list();
    const ids = new Set(all.map(({ id }) => id));
    for (const id of [...this.#known.keys()]) if (!ids.has(id)) this.#forgetGone(id);
    for (const connector of all) this.#learn(connector);
    this.context.missed();
  }

  #forgetGone(id: string): void {
    this.#known.delete(id);
    this.context.gone(id);
  }

  /** Returns what it is compared with what was known. */
  #learn({ id, given, createdAt }: Described): "new" | "other" | "same" {
    const known = this.#known.get(id);
    const hash = BigInt(Bun.hash(JSON.stringify(given)));
    const createdMs = createdAt.getTime();
    if (!known) {
      this.#known.set(id, { given: hash, createdMs, tasks: new Map() });
      this.context.events.connectorKnown(id);
      return "new";
    }
    // One too many where this replica has changed it before, so that none is missing.
    const isOther = known.given !== hash;
    known.given = hash;
    known.createdMs = createdMs;
    return isOther ? "other" : "same";
  }
}
