// Applies a source transaction that is still in progress, in a session of its own. It is committed once the source has committed it and
// everything before it is durable. In any unusual case it is given up: nothing of it is durable then, and it comes again as a whole.

import type { Client } from "pg";
import { bytesOfTuples, type ChangeBatch, type TupleForm } from "../../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../../change/relation.ts";
import { destroyClient } from "../../../../connection/postgres-client.ts";
import { givenUp, isGivenUp } from "../../../../errors/given-up.ts";
import { type ConnectorAtSink, lockForCopy } from "../../bookkeeping/connector-lock.ts";
import { isReplaced } from "../../bookkeeping/replaced-tables.ts";
import type { SinkTables } from "../../sink-tables.ts";
import { BatchApplier } from "../batch-applier.ts";
import type { MergeSession } from "../merge-session.ts";
import { WrittenBytes } from "../written-bytes.ts";

/** How long committed transactions wait for a lock of one in progress, and that one for a lock of others. */
export const lockPatienceMs = 3_000;

/** Keeps a shorter lock_timeout that the connection asks for. */
const boundLockWaits =
  `select set_config('lock_timeout', '${lockPatienceMs}', true) from pg_settings ` +
  `where name = 'lock_timeout' and setting::int not between 1 and ${lockPatienceMs}`;

export class TransactionInProgress implements Disposable {
  /** What was applied so far. */
  rows = 0;
  bytes = 0;
  #isGivenUp = false;
  /** The relations that it has written to, each with the LSN of its latest batch. */
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
      written: new WrittenBytes(),
      upserts: false,
      repeats: false,
      inOrder: false,
      incomplete: null,
      touched: tables.touched,
      warn,
    };
    connector.signal.addEventListener("abort", this.#destroy, { once: true });
  }

  /** Takes `client` over, a session of its own. */
  static async begin(
    client: Client,
    connector: ConnectorAtSink,
    tables: SinkTables,
    form: TupleForm,
  ): Promise<TransactionInProgress> {
    const transaction = new TransactionInProgress(client, connector, tables, form);
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
      // `#requireReady` takes no table that has a history: its rows bear the LSN of the commit.
      histories: { ofTable: async () => null, ofSkipped: async () => null },
      copyOf: (relation) => tables.ledger.stateOf(relation),
      // `#requireReady` has made sure that all tables are ready.
      isSkipped: () => false,
      isSuperseded: () => false,
      incomplete: tables.incomplete,
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

  /** Commits it, together with the checkpoint. */
  async commit(from: Lsn, to: Lsn): Promise<void> {
    // Other transactions may have had a table set aside meanwhile.
    for (const [relation, since] of this.#written) this.#requireReady(relation, since);
    await this.#attempt(async () => {
      const { connectorId } = this.connector;
      await this.#session.written.moveCheckpoint(this.client, { connectorId, from, to });
      await this.client.query("commit");
    });
  }

  /** Ends it at once, whatever it waits for. */
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
   * Turns every failure into `transaction_given_up`. What the server refuses now, it may accept when the transaction comes again as a whole. If
   * COMMIT got no answer, the checkpoint tells whether it was made.
   */
  async #attempt(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (isGivenUp(error)) throw error;
      throw givenUp(this.#isGivenUp ? "others had to wait for it" : String(error), error);
    }
  }

  /** Throws unless the table needs no migration and no record: such changes of shared knowledge could not be undone with this transaction. */
  #requireReady(relation: Relation, at: Lsn): void {
    const { ledger, setAside, incomplete, touched, histories } = this.tables;
    const copy = ledger.stateOf(relation);
    const isCopied = copy.kind === "none" || copy.point <= at;
    // Touched keys would become visible to an incremental copy only with the commit.
    const recordsTouched = touched.get(relation.id) !== null;
    const isOutside =
      recordsTouched ||
      setAside.has(relation.id) ||
      incomplete.has(relation.id) ||
      isReplaced(relation, this.tables) ||
      histories.isAsked(relation) ||
      relation.isGone;
    if (isCopied && !isOutside && this.tables.isReadyFor(relation)) return;
    throw givenUp(`table ${qualifiedName(relation)} is not ready at the sink`);
  }
}
