// The connectors that this replica holds. It reconciles each with its stored record, independently of the others.

import type { OpenRequest, RowQuestion } from "../connector/receipts.ts";
import type { Term } from "../connector/term.ts";
import { toMillraceError } from "../errors/millrace-error.ts";
import { type Holding, SupervisedConnector, type SupervisionContext } from "./supervised-connector.ts";

export interface SupervisorContext extends SupervisionContext {
  /**
   * A connector that this replica does not hold may be wanted to run. Left out: there is no other replica, and this one holds
   * whatever is stored.
   */
  wanted?(connectorId: string): void;
}

interface Held {
  readonly term: Term;
  readonly connector: SupervisedConnector;
}

/** One that is no longer held, and whose run has not ended. */
interface Ending extends Held {
  readonly ended: Promise<void>;
}

const gonePollMs = 100;

export class Supervisor implements AsyncDisposable {
  readonly #held = new Map<string, Held>();
  readonly #ending = new Map<string, Ending>();
  /** Terms of connectors that are taken as soon as their earlier runs have ended. */
  readonly #awaiting = new Map<string, number>();
  /** Resolves when tasks that ran before the start are pending again; null: not asked for yet, or it failed. */
  #released: Promise<void> | null = null;
  #deletesOnly = true;
  #closed = false;

  constructor(private readonly context: SupervisorContext) {}

  /** Continues deletions only: an id may have to become free before the connectors of a config file are applied. */
  async startDeletions(): Promise<void> {
    await this.#reconcileAll();
  }

  /** Continues everything. */
  async start(): Promise<void> {
    this.#deletesOnly = false;
    await this.#reconcileAll();
  }

  /** From now on this replica runs the connector, under this term. */
  hold(id: string, term: number): void {
    if (this.#closed || this.#held.get(id)?.term === term) return;
    this.cut(id);
    this.#awaiting.set(id, term);
    // Two runs of one connector must not share this process.
    void Promise.resolve(this.#ending.get(id)?.ended).then(() => {
      // It may have been lost meanwhile, and gained again under another term.
      if (this.#awaiting.get(id) !== term) return;
      this.#awaiting.delete(id);
      this.#take(id, term);
    });
  }

  /** This replica may no longer run the connector: whatever goes on of it ends now. */
  cut(id: string): void {
    void this.#end(id, "cut");
  }

  /** Stops the connector's run in order. Resolves when nothing of it goes on, so that another replica may go on with it. */
  async giveBack(id: string): Promise<void> {
    await this.#end(id, "stop");
  }

  /** Requests of the connector's run that have the row and are not delivered; null: nothing runs here that could tell. */
  async findRow(id: string, question: RowQuestion): Promise<readonly OpenRequest[] | null> {
    return (await this.#held.get(id)?.connector.findRow(question)) ?? null;
  }

  /** Whether this replica holds the connector. */
  holds(id: string): boolean {
    return this.#held.has(id);
  }

  /** Under which term this replica holds the connector, or held it while its run ends; undefined: it does not. */
  termOf(id: string): Term | undefined {
    const known = this.#held.get(id) ?? this.#ending.get(id);
    return known?.term;
  }

  /** The connector's record has changed. Returns at once; the change takes effect later. */
  reconcile(id: string): void {
    if (this.#closed) return;
    const held = this.#held.get(id);
    if (held) held.connector.reconcile();
    else if (this.context.wanted) this.context.wanted(id);
    else this.#take(id, null);
  }

  /** Records of connectors may have changed, and tasks of them may be due. */
  reconcileHeld(): void {
    for (const { connector } of this.#held.values()) {
      connector.reconcile();
      connector.tasks.dispatch();
    }
  }

  /** A task of the connector may be due. */
  dispatchTasks(id: string): void {
    this.#held.get(id)?.connector.tasks.dispatch();
  }

  /** Whether the connector's run with this id has ended by itself: complete, or failed permanently. */
  isOver(id: string, runId: string): boolean {
    return this.#held.get(id)?.connector.isOver(runId) ?? false;
  }

  /** Resolves when the connector's deletion is over, or waits for its source; after `boundMs` in any case. */
  async settled(id: string, boundMs: number): Promise<void> {
    const held = this.#held.get(id);
    if (held) await Promise.race([held.connector.settled(), Bun.sleep(boundMs)]);
    else if (this.context.wanted) await this.#untilGone(id, boundMs);
  }

  /** Tables that the connector's tasks are copying, and those that wait. */
  taskLoad(id: string): { readonly running: number; readonly waiting: number } {
    return this.#held.get(id)?.connector.tasks.load ?? { running: 0, waiting: 0 };
  }

  /** Stops all runs at once. The records stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#held.keys()].map((id) => this.#end(id, "stop")));
    await Promise.all([...this.#ending.values()].map(({ ended }) => ended));
    await this.context.board[Symbol.asyncDispose]();
  }

  /** Another replica deletes it. */
  async #untilGone(id: string, boundMs: number): Promise<void> {
    const { connectors } = this.context.state;
    for (const deadline = performance.now() + boundMs; performance.now() < deadline; ) {
      if ((await connectors.find(id)) === null) return;
      await Bun.sleep(gonePollMs);
    }
  }

  async #reconcileAll(): Promise<void> {
    if (this.context.wanted) this.reconcileHeld();
    else for (const { id } of await this.context.state.connectors.list()) this.reconcile(id);
  }

  #take(id: string, term: Term): void {
    if (this.#closed || this.#held.has(id)) return;
    const holding: Holding = {
      id,
      term,
      deletesOnly: () => this.#deletesOnly,
      releaseTasks: () => this.#releaseTasks(id, term),
      onGone: () => {
        if (this.#held.get(id)?.connector !== connector) return;
        this.#held.delete(id);
      },
    };
    const connector = new SupervisedConnector(holding, this.context);
    this.#held.set(id, { term, connector });
    connector.reconcile();
  }

  /** Makes tasks pending that ran before the start. Without other replicas one statement does so for all connectors, before the first one begins. */
  async #releaseTasks(id: string, term: Term): Promise<void> {
    const { tasks } = this.context.state;
    if (term !== null) return tasks.releaseRunning(id, term);
    this.#released ??= tasks.releaseAllRunning().catch((error: unknown) => {
      this.#released = null;
      throw error;
    });
    return this.#released;
  }

  #end(id: string, how: "stop" | "cut"): Promise<void> {
    this.#awaiting.delete(id);
    const held = this.#held.get(id);
    if (!held) {
      const ending = this.#ending.get(id);
      // Its lease may be lost while it stops in order: then nothing is waited for any more.
      if (how === "cut") ending?.connector.cut();
      return ending?.ended ?? Promise.resolve();
    }
    this.#held.delete(id);
    const ended = held.connector
      .close(how)
      .catch((fault: unknown) => {
        const error = toMillraceError(fault);
        this.context.log.error({ connector: id, error }, "a connector did not stop in order");
      })
      .finally(() => {
        this.context.board.release(id);
        this.#ending.delete(id);
      });
    this.#ending.set(id, { ...held, ended });
    return ended;
  }
}
