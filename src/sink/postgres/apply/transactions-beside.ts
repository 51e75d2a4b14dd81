// The source's transaction in progress, while there is one, and the session that it is applied in: see transaction-beside.ts.

import type { Client } from "pg";
import type { ChangeBatch, InProgress, TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { givenUp } from "../../../errors/given-up.ts";
import type { ConnectorAtSink } from "../bookkeeping/connector-lock.ts";
import type { SinkTables } from "../sink-tables.ts";
import { patienceMs, TransactionBeside } from "./transaction-beside.ts";

export interface Counted {
  readonly rows: number;
  readonly bytes: number;
}

export interface BesideOptions {
  readonly open: () => Promise<Client>;
  /** Runs an action while its session is watched; tells what went wrong. */
  readonly guard: <T>(client: Client, action: () => Promise<T>) => Promise<T>;
  readonly connector: ConnectorAtSink;
  readonly tables: SinkTables;
  /** In which batches come. */
  readonly form: () => TupleForm;
  /** One of which nothing has come for so long is given up: its session holds locks, and keeps the server from clearing away. */
  readonly idleMs: number;
}

export class TransactionsBeside implements Disposable {
  /** One that was given up stays until its next part. */
  #current: TransactionBeside | null = null;
  #idle: Timer | undefined;

  constructor(
    private readonly options: BesideOptions,
    private readonly limitMs = patienceMs,
  ) {}

  /**
   * Applies a part; with the last one all is committed, and the checkpoint moved from `from`: what became durable is returned.
   * Throws `transaction_given_up`.
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
    // What it has found may be what it made.
    if (outcome === "aborted") this.options.tables.registry.forgetShapes();
    return outcome === "committed" ? { rows: transaction.rows, bytes: transaction.bytes } : null;
  }

  /** While others are written: they do not wait for long. */
  whileOthersWrite(): Disposable {
    const timer = this.#current === null ? undefined : setTimeout(() => this.giveUp(), this.limitMs);
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }

  /** What is about to be done may need what the transaction has locked. */
  giveUp(): void {
    this.#current?.giveUp();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#current?.[Symbol.dispose]();
    this.#current = null;
  }

  async #begin(): Promise<TransactionBeside> {
    const { open, guard, connector, tables, form } = this.options;
    try {
      const client = await open();
      return await guard(client, () => TransactionBeside.begin(client, connector, tables, form()));
    } catch (error) {
      // The server may have no room for another session, while that of the others goes on.
      if (connector.signal.aborted) throw error;
      throw givenUp(String(error), error);
    }
  }
}
