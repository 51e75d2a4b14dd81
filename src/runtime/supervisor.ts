// All connectors of the service. It reconciles each with its stored record, independently of the others.

import { toMillraceError } from "../errors/millrace-error.ts";
import { SupervisedConnector, type SupervisionContext } from "./supervised-connector.ts";

export class Supervisor implements AsyncDisposable {
  readonly #connectors = new Map<string, SupervisedConnector>();
  #closed = false;

  constructor(private readonly context: SupervisionContext) {}

  /** Resumes the deletions only: an id may have to become free before the connectors of a config file are applied. */
  async startDeletions(): Promise<void> {
    for (const { id, deletion } of await this.context.state.connectors.list())
      if (deletion) this.reconcile(id);
  }

  /** Resumes every stored connector. */
  async start(): Promise<void> {
    for (const { id } of await this.context.state.connectors.list()) this.reconcile(id);
  }

  /** The connector's record has changed. Returns at once; the change takes effect later. */
  reconcile(id: string): void {
    if (this.#closed) return;
    let connector = this.#connectors.get(id);
    if (!connector) {
      const created = new SupervisedConnector(id, this.context, () => {
        if (this.#connectors.get(id) === created) this.#connectors.delete(id);
      });
      connector = created;
      this.#connectors.set(id, created);
    }
    connector.reconcile();
  }

  /** A task of the connector may be due. */
  dispatchTasks(id: string): void {
    this.#connectors.get(id)?.tasks.dispatch();
  }

  /** Whether the connector's run with this id has ended by itself: complete, or failed permanently. */
  isOver(id: string, runId: string): boolean {
    return this.#connectors.get(id)?.isOver(runId) ?? false;
  }

  /** Resolves when the connector's record is in effect, or waits for its source; after `boundMs` in any case. */
  async settled(id: string, boundMs: number): Promise<void> {
    const settled = this.#connectors.get(id)?.settled();
    if (settled) await Promise.race([settled, Bun.sleep(boundMs)]);
  }

  /** Tables that tasks are copying, and those that wait, over all connectors. */
  taskLoad(): { readonly running: number; readonly waiting: number } {
    let [running, waiting] = [0, 0];
    for (const { tasks } of this.#connectors.values()) {
      running += tasks.load.running;
      waiting += tasks.load.waiting;
    }
    return { running, waiting };
  }

  /** Stops all runs at once. The records stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const closing = [...this.#connectors.values()].map((connector) => connector.close());
    for (const result of await Promise.allSettled(closing)) {
      if (result.status === "rejected") {
        this.context.log.error(
          { error: toMillraceError(result.reason) },
          "a connector did not stop in order",
        );
      }
    }
    await this.context.board[Symbol.asyncDispose]();
  }
}
