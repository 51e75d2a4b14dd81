// A transaction of the source that is still in progress, applied in a session of its own while others are committed in theirs. It is
// committed when the source has committed it, and all that the source committed before is durable. Whatever is not plain is given
// up: nothing of it is durable, and it comes again when its end is known.

import type { Client } from "pg";
import { bytesOfTuples, type ChangeBatch, type TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { destroyClient } from "../../../connection/postgres-client.ts";
import { givenUp, isGivenUp } from "../../../errors/given-up.ts";
import { moveCheckpoint } from "../bookkeeping/bookkeeping.ts";
import { type ConnectorAtSink, lockForCopy } from "../bookkeeping/connector-lock.ts";
import { isReplaced } from "../bookkeeping/replaced-tables.ts";
import type { SinkTables } from "../sink-tables.ts";
import { BatchApplier } from "./batch-applier.ts";
import type { MergeSession } from "./merge-session.ts";

/** What is committed at the source waits no longer for what is not, nor for what that waits for. */
export const patienceMs = 3_000;

/** The connector may ask for less. */
const boundLockWaits =
  `select set_config('lock_timeout', '${patienceMs}', true) from pg_settings ` +
  `where name = 'lock_timeout' and setting::int not between 1 and ${patienceMs}`;

export class TransactionBeside implements Disposable {
  /** What it holds. */
  rows = 0;
  bytes = 0;
  #isGivenUp = false;
  /** What it has written to, and since when. */
  readonly #written = new Map<Relation, Lsn>();
  readonly #session: MergeSession;

  private constructor(
    readonly client: Client,
    private readonly connector: ConnectorAtSink,
    private readonly tables: SinkTables,
    form: TupleForm,
  ) {
    const warn = () => {
      throw givenUp("its rows are not for the sink to take as they are");
    };
    const staging: MergeSession["staging"] = new Map();
    this.#session = {
      client,
      form,
      staging,
      careful: false,
      repeats: false,
      inOrder: false,
      owed: null,
      touched: tables.touched,
      warn,
    };
    connector.signal.addEventListener("abort", this.#destroy, { once: true });
  }

  /** Takes over `client`, a session beside the one that applies. */
  static async begin(
    client: Client,
    connector: ConnectorAtSink,
    tables: SinkTables,
    form: TupleForm,
  ): Promise<TransactionBeside> {
    const transaction = new TransactionBeside(client, connector, tables, form);
    try {
      await client.query("begin");
      await client.query(boundLockWaits);
      await lockForCopy(client, connector);
      return transaction;
    } catch (error) {
      transaction[Symbol.dispose]();
      throw error;
    }
  }

  /** Throws `transaction_given_up`, whatever went wrong. */
  async apply(batch: ChangeBatch): Promise<void> {
    if (batch.count === 0) return;
    const { client, tables } = this;
    const applier = new BatchApplier(this.#session, batch, {
      prepare: (relation, at) => tables.registry.prepared(client, relation, this.#session.form, at),
      copyOf: (relation) => tables.ledger.stateOf(relation),
      // All are ready, or it is given up.
      isLeftOut: () => false,
      isSuperseded: () => false,
      owed: tables.owed,
      held: tables.held,
    });
    const since = lsn(batch.transactions.commitLsn[0]!);
    for (const relation of batch.relations) {
      this.#requireReady(relation, since);
      this.#written.set(relation, since);
    }
    await this.#attempt(() => applier.apply());
    this.rows += batch.count;
    this.bytes += bytesOfTuples(batch);
  }

  /** Commits it, with the checkpoint that it comes to. */
  async commit(from: Lsn, to: Lsn): Promise<void> {
    // What others brought meanwhile may have had a table set aside.
    for (const [relation, since] of this.#written) this.#requireReady(relation, since);
    await this.#attempt(async () => {
      await moveCheckpoint(this.client, this.connector.connectorId, from, to);
      await this.client.query("commit");
    });
  }

  /** Ends it from outside, whatever it waits for. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#destroy();
  }

  [Symbol.dispose](): void {
    this.connector.signal.removeEventListener("abort", this.#destroy);
    this.#destroy();
  }

  readonly #destroy = () => destroyClient(this.client);

  /**
   * What the server refuses may be nothing to refuse in another order, or when its end is known; where the server is gone, the next
   * attempt tells. Whether a COMMIT without an answer was made tells the checkpoint.
   */
  async #attempt(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (isGivenUp(error)) throw error;
      throw givenUp(this.#isGivenUp ? "others had to wait for it" : String(error), error);
    }
  }

  /** What it would change in what is remembered of a table could not be undone by itself. */
  #requireReady(relation: Relation, at: Lsn): void {
    const { ledger, setAside, owed, touched, held } = this.tables;
    const copy = ledger.stateOf(relation);
    const isCopied = copy.kind === "none" || copy.point <= at;
    // What it touches of a table that is being copied beside would be seen only with its end.
    const isNoted = touched.has(relation);
    const isOutside =
      isNoted ||
      held.has(relation.id) ||
      setAside.has(relation.id) ||
      owed.has(relation.id) ||
      isReplaced(relation, this.tables) ||
      relation.isGone;
    if (isCopied && !isOutside && this.tables.isReadyFor(relation)) return;
    throw givenUp(`table ${qualifiedName(relation)} is not ready at the sink`);
  }
}
