// Owns the source's transaction in progress, if there is one, and bounds how long it may block others. See transaction-in-progress.ts.

import type { Client } from "pg";
import type { ChangeBatch, InProgress, TupleForm } from "../../../../change/change-batch.ts";
import type { Lsn } from "../../../../change/lsn.ts";
import { givenUp } from "../../../../errors/given-up.ts";
import type { ConnectorAtSink } from "../../bookkeeping/connector-lock.ts";
import type { SinkTables } from "../../sink-tables.ts";
import { lockPatienceMs, TransactionInProgress } from "./transaction-in-progress.ts";

export interface Counted {
  readonly rows: number;
  readonly bytes: number;
}

export interface InProgressOptions {
  readonly open: () => Promise<Client>;
  /** Runs an action while its session is watched, and describes errors. */
  readonly guard: <T>(client: Client, action: () => Promise<T>) => Promise<T>;
  readonly connector: ConnectorAtSink;
  readonly tables: SinkTables;
  /** The form in which batches come. */
  readonly form: () => TupleForm;
  /** A transaction of which no part comes for this long is given up: it holds locks and keeps vacuum from removing dead rows. */
  readonly idleMs: number;
}

export class TransactionsInProgress implements Disposable {
  /** One that was given up stays here until its next part, which then fails. */
  #current: TransactionInProgress | null = null;
  #idle: Timer | undefined;

  constructor(
    private readonly options: InProgressOptions,
    private readonly limitMs = lockPatienceMs,
  ) {}

  /**
   * Applies a part. The last part commits, moves the checkpoint from `from`, and returns what became durable. Throws `transaction_given_up`.
   */
  async write(batch: ChangeBatch, { outcome }: InProgress, from: Lsn): Promise<Counted | null> {
    clearTimeout(this.#idle);
    const transaction = this.#current ?? (await this.#begin());
    this.#current = transaction;
    const { guard } = this.options;
    if (outcome !== "aborted") await guard(transaction.client, () => transaction.apply(batch));
    if (outcome === "open") {
      this.#idle = setTimeout(() => this.giveUp(), this.options.idleMs);
      return null;
    }
    if (outcome === "committed") {
      await guard(transaction.client, () => transaction.commit(from, batch.resumeLsn));
    }
    this[Symbol.dispose]();
    // The registry may have read tables that this transaction changed.
    if (outcome === "aborted") this.options.tables.registry.forgetShapes();
    return outcome === "committed" ? { rows: transaction.rows, bytes: transaction.bytes } : null;
  }

  /** While other transactions are written: gives this one up if they take long, as they may wait for its locks. */
  whileOthersWrite(): Disposable {
    const timer = this.#current === null ? undefined : setTimeout(() => this.giveUp(), this.limitMs);
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }

  /** Call it before anything that may need a lock of the transaction. */
  giveUp(): void {
    this.#current?.giveUp();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#current?.[Symbol.dispose]();
    this.#current = null;
  }

  async #begin(): Promise<TransactionInProgress> {
    const { open, guard, connector, tables, form } = this.options;
    try {
      const client = await open();
      return await guard(client, () => TransactionInProgress.begin(client, connector, tables, form()));
    } catch (error) {
      // The server may have no connection left for it, while the applying session goes on.
      if (connector.signal.aborted) throw error;
      throw givenUp(String(error), error);
    }
  }
}
