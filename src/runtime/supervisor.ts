// All connectors of the service: each is brought to where its stored record says, independently of the others.

import { toMillraceError } from "../errors/millrace-error.ts";
import { SupervisedConnector, type SupervisionContext } from "./supervised-connector.ts";

export class Supervisor implements AsyncDisposable {
  readonly #connectors = new Map<string, SupervisedConnector>();
  #closed = false;

  constructor(private readonly context: SupervisionContext) {}

  /** Goes on with what is being deleted, and nothing else: an id that is to be given again is waited for. */
  async startDeletions(): Promise<void> {
    for (const { id, deletion } of await this.context.state.connectors.list()) if (deletion) this.poke(id);
  }

  /** Goes on with everything that is stored. */
  async start(): Promise<void> {
    for (const { id } of await this.context.state.connectors.list()) this.poke(id);
  }

  /** The connector's record has changed: it is put into effect, after the return. */
  poke(id: string): void {
    if (this.#closed) return;
    let connector = this.#connectors.get(id);
    if (!connector) {
      const created = new SupervisedConnector(id, this.context, () => {
        if (this.#connectors.get(id) === created) this.#connectors.delete(id);
      });
      connector = created;
      this.#connectors.set(id, created);
    }
    connector.poke();
  }

  /** A task of the connector may be due. */
  wakeTasks(id: string): void {
    this.#connectors.get(id)?.desk.wake();
  }

  /** Whether the connector's run with this id has come to its end by itself: complete, or failed for good. */
  isOver(id: string, runId: string): boolean {
    return this.#connectors.get(id)?.isOver(runId) ?? false;
  }

  /** Resolves when what was asked of the connector has been carried out, or waits for its source; at most `boundMs`. */
  async settled(id: string, boundMs: number): Promise<void> {
    const settled = this.#connectors.get(id)?.settled();
    if (settled) await Promise.race([settled, Bun.sleep(boundMs)]);
  }

  /** Tables that tasks copy now, and those that wait for their turn, over all connectors. */
  taskLoad(): { readonly running: number; readonly waiting: number } {
    let [running, waiting] = [0, 0];
    for (const { desk } of this.#connectors.values()) {
      running += desk.load.running;
      waiting += desk.load.waiting;
    }
    return { running, waiting };
  }

  /** Stops all runs side by side; the records stay as they are. */
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
