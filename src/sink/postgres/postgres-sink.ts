// A Postgres database as a sink. It delivers exactly once, as the checkpoint moves in the transaction that writes the rows.

import type { Client } from "pg";
import { bytesOfTuples, type ChangeBatch, type TupleForm } from "../../change/change-batch.ts";
import { type Checkpoint, copiesLogPrefix } from "../../change/checkpoint.ts";
import type { ComputedColumns } from "../../change/computed-columns.ts";
import { type Lsn, zeroLsn } from "../../change/lsn.ts";
import type { TableShape } from "../../change/relation.ts";
import { Semaphore } from "../../concurrency/semaphore.ts";
import { hasOneSession } from "../../connection/has-one-session.ts";
import { closeClient, destroyClient, withPostgres } from "../../connection/postgres-client.ts";
import { describePostgresError } from "../../connection/postgres-failure.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../connector/config/sink-config.ts";
import type { CopySink } from "../copy-sink.ts";
import type { PreparedTables, Sink, SinkContext } from "../sink.ts";
import type { UnreadableTable } from "../sink-events.ts";
import type { VerifySink } from "../verify-sink.ts";
import { ApplyTransaction } from "./apply/apply-transaction.ts";
import { type Counted, TransactionsInProgress } from "./apply/in-progress/transactions-in-progress.ts";
import type { ApplySession } from "./apply-session.ts";
import { forgetConnector, insertCheckpoint, readBookkeeping, updateLog } from "./bookkeeping/bookkeeping.ts";
import { lockConnector, shareConnectorLock } from "./bookkeeping/connector-lock.ts";
import { ensureBookkeeping } from "./bookkeeping/ensure-bookkeeping.ts";
import { dropFormerCopies } from "./bookkeeping/former-copies.ts";
import { takeTerm } from "./bookkeeping/run-term.ts";
import { maxTablesAtOnce } from "./checks/lock-room.ts";
import { LockWait } from "./checks/lock-wait.ts";
import { describeDenial } from "./checks/privileges.ts";
import { watchRepairs } from "./checks/repair-watch.ts";
import { SinkCopies } from "./copy/sink-copies.ts";
import type { HistoryAsked } from "./history/histories.ts";
import { isRowRefused, type RefusedRow } from "./refusals/refused-row.ts";
import { withRemedy } from "./refusals/refused-table.ts";
import { TargetNaming } from "./schema/target-naming.ts";
import { type SinkPace, sinkPace } from "./sink-pace.ts";
import { openApplySession, openCopySession } from "./sink-session.ts";
import { SinkTables } from "./sink-tables.ts";
import { recordTypeRefusal } from "./types/type-refusal.ts";
import { SinkVerification } from "./verify/sink-verification.ts";

/** Sessions that are in use while changes are applied: the one that applies, and the one that watches it. */
const sessionsInUse = 2;

export class PostgresSink implements Sink {
  #client: Client | null = null;
  #checkpoint: Checkpoint | null = null;
  readonly #tables: SinkTables;
  readonly #transaction: ApplyTransaction;
  readonly #copies: SinkCopies;
  readonly verification: VerifySink;
  #repairWatch: AsyncDisposable | null = null;
  readonly #inProgress: TransactionsInProgress;
  readonly #lockWait: LockWait;
  readonly #permits = new Semaphore();
  #undurable = { rows: 0, bytes: 0 };

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly context: SinkContext,
    private readonly naming = new TargetNaming(config.target_schema),
    private readonly pace: SinkPace = sinkPace,
    historyAsked: HistoryAsked = () => null,
  ) {
    this.#tables = new SinkTables(config, naming, context, pace, historyAsked);
    const { connectorId, makesCopies, events, isAfterRefusal = false } = context;
    this.#transaction = new ApplyTransaction(
      connectorId,
      config.migration_strategy,
      this.#tables,
      makesCopies,
      events,
      isAfterRefusal,
    );
    this.#lockWait = new LockWait((reason) => events.warning("lock", reason));
    const apply: ApplySession = {
      guard: (action) => this.#guard(action),
      client: () => this.#connected,
      watched: (client) => this.#session(client),
      resumeLsn: () => this.#resumeLsn,
      hasStream: () => this.#hasStream,
      lockWaitEnded: () => this.#lockWait.show(null),
      form: () => this.#transaction.form,
      giveUpInProgress: () => this.#inProgress.giveUp(),
      readAgain: (client) => this.#read(client),
    };
    this.#copies = new SinkCopies(config, naming, context, this.#tables, apply);
    this.verification = new SinkVerification(config, naming, context, this.#tables, apply);
    this.#inProgress = new TransactionsInProgress({
      open: () => openCopySession(config, context),
      guard: (client, action) => this.#guard(action, client),
      connector: context,
      tables: this.#tables,
      form: () => this.#transaction.form,
      idleMs: pace.inProgressIdleMs,
    });
    context.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  async open(): Promise<Checkpoint | null> {
    const { connectorId } = this.context;
    this.#client = await openApplySession(this.config, this.context, (reason) =>
      this.context.events.warning("privileges", reason),
    );
    return await this.#guard(async (client) => {
      await ensureBookkeeping(client);
      await lockConnector(client, this.context);
      await takeTerm(client, this.context);
      await shareConnectorLock(client, this.context);
      await dropFormerCopies(client, connectorId);
      return await this.#read(client);
    });
  }

  async #read(client: Client): Promise<Checkpoint | null> {
    const { checkpoint, copies } = await readBookkeeping(client, this.context.connectorId);
    this.#checkpoint = checkpoint;
    await this.#tables.load(client, copies.values());
    return checkpoint;
  }

  async begin(checkpoint: Checkpoint): Promise<void> {
    await this.#guard((client) => insertCheckpoint(client, this.context.connectorId, checkpoint));
    this.#checkpoint = checkpoint;
  }

  async goOnIn(log: string): Promise<void> {
    await this.#guard(async (client) => {
      // The other log may lack changes up to the points of unfinished copies.
      await this.#tables.dropBegun(client);
      await updateLog(client, this.context.connectorId, log);
    });
    if (this.#checkpoint) this.#checkpoint = { ...this.#checkpoint, log };
  }

  async forget(keepsShapes: boolean): Promise<void> {
    await this.#guard(async (client) => {
      await this.#tables.dropBegun(client);
      await forgetConnector(client, this.context.connectorId, keepsShapes);
    });
    this.#checkpoint = null;
    this.#tables.forget(keepsShapes);
  }

  async prepare(
    tables: readonly TableShape[],
    forms: readonly TupleForm[],
    unreadable: readonly UnreadableTable[] = [],
  ): Promise<PreparedTables> {
    this.#inProgress.giveUp();
    return await this.#guard(async (client) => {
      const { best, ...prepared } = await this.#tables.prepare(client, tables, unreadable, this.#resumeLsn);
      await this.#tables.reconcileHistories(client, this.#resumeLsn, this.#hasStream);
      this.#transaction.form = forms.includes(best) ? best : "text";
      this.#repairWatch ??= watchRepairs(
        this.pace.recheckMs,
        (signal) => this.#isAnyChanged(signal),
        () => this.context.events.changed(),
      );
      const { max_pool_size: most } = this.config.connection;
      return {
        ...prepared,
        form: this.#transaction.form,
        maxTables: await maxTablesAtOnce(client),
        takesInProgress: prepared.takesInProgress === true && (most === 0 || most > sessionsInUse),
      };
    });
  }

  /** Uses a session of its own, as batches may be applied meanwhile. */
  async #isAnyChanged(signal: AbortSignal): Promise<boolean> {
    if (this.#tables.interrupted.areAnyOverdue) return true;
    if (!this.#tables.setAside.isAnyWaiting) return false;
    // With one session only, `prepare` checks between two batches.
    if (hasOneSession(this.config.connection)) return true;
    const either = AbortSignal.any([signal, this.context.signal]);
    return await withPostgres(this.config.connection, "control", either, "sink", (client) =>
      this.#tables.isAnyChanged(client),
    );
  }

  async computed(tables: readonly TableShape[], sourceVersion: number): Promise<ComputedColumns> {
    if (tables.length === 0) return new Map();
    const { computed } = this.#tables.registry;
    return await this.#guard((client) => computed.answers(client, tables, sourceVersion));
  }

  get copies(): CopySink {
    return this.#copies;
  }

  async write(batch: ChangeBatch): Promise<void> {
    if (batch.inProgress) {
      const durable = await this.#inProgress.write(batch, batch.inProgress, this.#resumeLsn);
      if (durable) this.#moved(batch.resumeLsn, durable);
    } else {
      using _limit = this.#inProgress.whileOthersWrite();
      await this.#writeCommitted(batch);
    }
  }

  async #writeCommitted(batch: ChangeBatch): Promise<void> {
    await this.#guard(async (client) => {
      const refused = (await this.#transaction.apply(client, batch)) ?? (await this.#finish(client, batch));
      if (refused === null) return;
      const { before } = refused;
      if (before) {
        this.#count({ ...batch, count: before.rows });
        await this.#commit(client, before.resumeLsn);
      }
      await this.#transaction.giveUp(client);
      if (this.context.makesCopies)
        await recordTypeRefusal(client, this.context.connectorId, refused, this.#tables);
      throw await withRemedy(client, this.naming.target(refused.relation), refused.relation, refused.error);
    });
  }

  /** After the batch is applied: commits. Deferred constraints may still refuse a row. */
  async #finish(client: Client, batch: ChangeBatch): Promise<RefusedRow | null> {
    this.#count(batch);
    if (batch.endsInTransaction) return null;
    try {
      await this.#commit(client, batch.resumeLsn);
      return null;
    } catch (error) {
      const refusal = describePostgresError(error, "sink", "sink_rejected_rows");
      if (!isRowRefused(refusal) || this.#transaction.holdsPieces) throw error;
      const refused = await this.#transaction.applyAgain(client, batch);
      this.#undurable = { rows: 0, bytes: 0 };
      if (refused !== null) return refused;
      this.#count(batch);
      await this.#commit(client, batch.resumeLsn);
      return null;
    }
  }

  #count(batch: ChangeBatch): void {
    const { count, commitTimeUs } = batch.transactions;
    if (count > 0) this.#tables.histories.sawTime(commitTimeUs[count - 1]!);
    this.#undurable.rows += batch.count;
    this.#undurable.bytes += bytesOfTuples(batch);
  }

  /** Does nothing: after `write` everything is durable, except the beginning of a transaction whose end is still to come. */
  async flush(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    this.context.signal.removeEventListener("abort", this.#onAbort);
    this.#inProgress[Symbol.dispose]();
    await this.#copies[Symbol.asyncDispose]();
    await this.#repairWatch?.[Symbol.asyncDispose]();
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    if (this.#transaction.isOpen || this.context.signal.aborted) destroyClient(client);
    else await closeClient(client);
  }

  readonly #onAbort = () => {
    if (this.#client) destroyClient(this.#client);
  };

  /** Changes that the stream brought before this LSN are durable. */
  get #resumeLsn(): Lsn {
    return this.#checkpoint?.resumeLsn ?? zeroLsn;
  }

  get #hasStream(): boolean {
    return !this.#checkpoint?.log?.startsWith(copiesLogPrefix);
  }

  get #connected(): Client {
    if (!this.#client) throw new Error("the sink is not open");
    return this.#client;
  }

  async #commit(client: Client, resumeLsn: Lsn): Promise<void> {
    await this.#transaction.commit(client, this.#resumeLsn, resumeLsn);
    this.#moved(resumeLsn, this.#undurable);
    this.#undurable = { rows: 0, bytes: 0 };
  }

  /** The committed transaction has moved the checkpoint. */
  #moved(resumeLsn: Lsn, { rows, bytes }: Counted): void {
    if (!this.#checkpoint) throw new Error("a write before begin");
    this.#checkpoint = { ...this.#checkpoint, resumeLsn };
    this.context.events.durable(this.#checkpoint, rows, bytes);
    if (this.#tables.takeRefreshDue(resumeLsn)) this.context.events.changed();
    if (this.#tables.isHistoryDue(resumeLsn)) this.context.events.changed();
  }

  #session(client: Client): WatchedSession {
    const { connection } = this.config;
    const [permits, onCheck] = [this.#permits, this.#lockWait.check];
    return { connection, side: "sink", client, permits, onCheck, signal: this.context.signal };
  }

  async #guard<T>(action: (client: Client) => Promise<T>, client = this.#connected): Promise<T> {
    try {
      return await whileWatched(this.#session(client), () => action(client));
    } catch (error) {
      throw this.#described(error);
    } finally {
      this.#lockWait.show(null);
    }
  }

  #described(error: unknown): unknown {
    if (this.context.signal.aborted) return this.context.signal.reason;
    return (
      describeDenial(error, this.config.connection.user, null) ??
      describePostgresError(error, "sink", "sink_rejected_rows")
    );
  }
}
