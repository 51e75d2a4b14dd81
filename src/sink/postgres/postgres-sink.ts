// A Postgres database as a sink: exactly once, because the checkpoint moves in the transaction that writes the rows.

import type { Client } from "pg";
import { bytesOfTuples, type ChangeBatch, type TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { type Lsn, zeroLsn } from "../../change/lsn.ts";
import type { Relation, TableShape } from "../../change/relation.ts";
import { closeClient, destroyClient, withPostgres } from "../../connection/postgres-client.ts";
import { describePostgresError } from "../../connection/postgres-failure.ts";
import { SessionPool } from "../../connection/session-pool.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { CopyRequest, PreparedTables, Sink, SinkContext } from "../sink.ts";
import { ApplyTransaction, type RefusedRow } from "./apply-transaction.ts";
import {
  ensureBookkeeping,
  forgetConnector,
  insertCheckpoint,
  readBookkeeping,
  updateLog,
} from "./bookkeeping.ts";
import { lockConnector, shareConnectorLock } from "./connector-lock.ts";
import { watchedCopy } from "./copy-watch.ts";
import { describeLockWait } from "./lock-wait.ts";
import { watchMends } from "./mend-watch.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { isValueRefused, misfitRefused } from "./misfit-type.ts";
import { isRowRefused } from "./refused-row.ts";
import { describeRefusedCopy } from "./refused-rows.ts";
import { refusedNull } from "./remedy.ts";
import { openApplySession, openCopySession } from "./sink-session.ts";
import { SinkTables } from "./sink-tables.ts";
import { copyIntoTarget } from "./table-copy.ts";
import { TargetNaming } from "./target-naming.ts";
import { askForTypes } from "./type-question.ts";

/** How often the sink looks after what nobody tells it of. */
export interface SinkPace {
  readonly lookAtSetAsideMs: number;
}

const defaultPace: SinkPace = { lookAtSetAsideMs: 5_000 };

export class PostgresSink implements Sink {
  #client: Client | null = null;
  #checkpoint: Checkpoint | null = null;
  readonly #tables: SinkTables;
  readonly #transaction: ApplyTransaction;
  readonly #copySessions: SessionPool;
  #mendWatch: AsyncDisposable | null = null;
  #waitsForLock = false;
  #undurable = { rows: 0, bytes: 0 };
  /** Tables whose last copy failed, by OID at the source. */
  readonly #refusedCopies = new Set<number>();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly context: SinkContext,
    private readonly naming = new TargetNaming(config.target_schema),
    private readonly pace: SinkPace = defaultPace,
  ) {
    this.#tables = new SinkTables(config, naming, context);
    const { connectorId, makesCopies, events } = context;
    this.#transaction = new ApplyTransaction(
      connectorId,
      config.migration_strategy,
      this.#tables,
      makesCopies,
      events,
      context.isAfterRefusal === true,
    );
    this.#copySessions = new SessionPool(() => openCopySession(config, context));
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
      await shareConnectorLock(client, this.context);
      const { checkpoint, copies } = await readBookkeeping(client, connectorId);
      this.#checkpoint = checkpoint;
      await this.#tables.load(client, copies.values());
      return checkpoint;
    });
  }

  async begin(checkpoint: Checkpoint): Promise<void> {
    await this.#guard((client) => insertCheckpoint(client, this.context.connectorId, checkpoint));
    this.#checkpoint = checkpoint;
  }

  async goOnIn(log: string): Promise<void> {
    await this.#guard((client) => updateLog(client, this.context.connectorId, log));
    if (this.#checkpoint) this.#checkpoint = { ...this.#checkpoint, log };
  }

  async forget(keepsShapes: boolean): Promise<void> {
    await this.#guard((client) => forgetConnector(client, this.context.connectorId, keepsShapes));
    this.#checkpoint = null;
    this.#tables.forget(keepsShapes);
  }

  async prepare(tables: readonly TableShape[], forms: readonly TupleForm[]): Promise<PreparedTables> {
    return await this.#guard(async (client) => {
      const { best, ...prepared } = await this.#tables.prepare(client, tables, this.#resumeLsn);
      this.#transaction.form = forms.includes(best) ? best : "text";
      this.#mendWatch ??= watchMends(
        this.pace.lookAtSetAsideMs,
        (signal) => this.#isAnyChanged(signal),
        () => this.context.events.mended(),
      );
      return { ...prepared, form: this.#transaction.form };
    });
  }

  /** By a session of its own: batches may be applied meanwhile. */
  async #isAnyChanged(signal: AbortSignal): Promise<boolean> {
    if (!this.#tables.setAside.isAnyWaiting) return false;
    const either = AbortSignal.any([signal, this.context.signal]);
    return await withPostgres(this.config.connection, "control", either, "sink", (client) =>
      this.#tables.isAnyChanged(client),
    );
  }

  copyForm(table: TableShape): TupleForm {
    return this.#isTraced(table.relation) ? "text" : this.#tables.registry.copyForm(table);
  }

  async copyTable(request: CopyRequest): Promise<void> {
    const { signal } = this.context;
    // First copies come by themselves, once `prepare` has seen to the names.
    if (request.mode !== "initial") {
      await this.#guard((apply) => this.#tables.takeName(apply, request.table.relation));
    }
    const client = await this.#copySessions.take();
    const abort = () => destroyClient(client);
    signal.addEventListener("abort", abort, { once: true });
    try {
      const { relation } = request.table;
      const mode = this.#tables.ledger.isVoid(relation) ? "replace" : request.mode;
      const known = {
        shape: this.#tables.shapeToCopyInto(relation),
        nullColumn: this.#tables.setAside.nullColumnOf(relation),
        isTraced: this.#isTraced(relation),
      };
      const { record, shape } = await watchedCopy(
        this.#connected,
        this.#session(client),
        { ...request, mode },
        (counted) => copyIntoTarget(client, this.config, this.naming, this.context, counted, known),
      );
      this.#tables.ledger.add(record);
      this.#tables.shapes.add(shape);
      this.#tables.setAside.copied(relation);
      this.#refusedCopies.delete(relation.id);
      this.#showLockWait(null);
      this.#tables.registry.forgetShapes();
      await this.#copySessions.giveBack(client);
    } catch (error) {
      destroyClient(client);
      if (signal.aborted) throw signal.reason;
      const { relation } = request.table;
      this.#refusedCopies.add(relation.id);
      await this.#setAsideRefused(relation, error);
      const names = relation.columns.map(({ name }) => name);
      throw describeRefusedCopy(error, this.naming.target(relation), names);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** Its last copy may have ended because a row was refused. */
  #isTraced({ id }: Relation): boolean {
    return this.context.isAfterRefusal === true || this.#refusedCopies.has(id);
  }

  /** A table that has no copy yet, and cannot get one, must not keep the others waiting for theirs: the next run goes on without it. */
  async #setAsideRefused(relation: Relation, error: unknown): Promise<void> {
    if (this.#tables.ledger.holds(relation) || !this.context.makesCopies) return;
    await this.#guard(async (client) => {
      const refusal = await this.#refusalOf(client, relation, error);
      const { column = null } = refusal ?? {};
      const isOurs = column === null || relation.columns.some(({ name }) => name === column);
      if (refusal && isOurs) await this.#tables.setAside.add(client, relation, refusal, this.#resumeLsn);
    });
  }

  async #refusalOf(client: Client, relation: Relation, error: unknown): Promise<MigrationRefused | null> {
    if (error instanceof MigrationRefused) return error;
    if (isValueRefused(error)) return await misfitRefused(client, this.naming.target(relation), relation);
    return refusedNull(error)?.refusal ?? null;
  }

  async write(batch: ChangeBatch): Promise<void> {
    await this.#guard(async (client) => {
      const refused = (await this.#transaction.apply(client, batch)) ?? (await this.#finish(client, batch));
      if (refused === null) return;
      const { before, error } = refused;
      if (before) {
        this.#count({ ...batch, count: before.rows });
        await this.#commit(client, before.resumeLsn);
      }
      if (this.context.makesCopies)
        await askForTypes(client, this.context.connectorId, refused, this.#tables.ledger);
      throw error;
    });
  }

  /** The batch is applied. Constraints that are checked at COMMIT may refuse a row still. */
  async #finish(client: Client, batch: ChangeBatch): Promise<RefusedRow | null> {
    this.#count(batch);
    if (batch.endsInTransaction) return null;
    try {
      await this.#commit(client, batch.resumeLsn);
      return null;
    } catch (error) {
      const refusal = describePostgresError(error, "sink", "sink_rejected_rows");
      if (!isRowRefused(refusal)) throw error;
      const refused = await this.#transaction.applyAgain(client, batch);
      this.#undurable = { rows: 0, bytes: 0 };
      if (refused !== null) return refused;
      this.#count(batch);
      await this.#commit(client, batch.resumeLsn);
      return null;
    }
  }

  #count(batch: ChangeBatch): void {
    this.#undurable.rows += batch.count;
    this.#undurable.bytes += bytesOfTuples(batch);
  }

  /** What `write` has returned for is durable, but for the beginning of a transaction whose end is still to come. */
  async flush(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    this.context.signal.removeEventListener("abort", this.#onAbort);
    await this.#copySessions[Symbol.asyncDispose]();
    await this.#mendWatch?.[Symbol.asyncDispose]();
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    if (this.#transaction.isOpen || this.context.signal.aborted) destroyClient(client);
    else await closeClient(client);
  }

  readonly #onAbort = () => {
    if (this.#client) destroyClient(this.#client);
  };

  /** What the stream has brought before it is durable. */
  get #resumeLsn(): Lsn {
    return this.#checkpoint?.resumeLsn ?? zeroLsn;
  }

  get #connected(): Client {
    if (!this.#client) throw new Error("the sink is not open");
    return this.#client;
  }

  async #commit(client: Client, resumeLsn: Lsn): Promise<void> {
    const from = this.#checkpoint;
    if (!from) throw new Error("a write before begin");
    await this.#transaction.commit(client, from.resumeLsn, resumeLsn);
    this.#checkpoint = { ...from, resumeLsn };
    const { rows, bytes } = this.#undurable;
    this.#undurable = { rows: 0, bytes: 0 };
    this.context.events.durable(this.#checkpoint, rows, bytes);
    if (this.#tables.registry.takeLookDue()) this.context.events.mended();
  }

  #session(client: Client): WatchedSession {
    const { connection } = this.config;
    const beside = async (observer: Client, pid: number) =>
      this.#showLockWait(await describeLockWait(observer, pid).catch(() => null));
    return { connection, side: "sink", client, beside, signal: this.context.signal };
  }

  #showLockWait(reason: string | null): void {
    if (reason === null && !this.#waitsForLock) return;
    this.#waitsForLock = reason !== null;
    this.context.events.warning("lock", reason);
  }

  async #guard<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const client = this.#connected;
    try {
      return await whileWatched(this.#session(client), () => action(client));
    } catch (error) {
      throw this.#described(error);
    } finally {
      this.#showLockWait(null);
    }
  }

  #described(error: unknown): unknown {
    if (this.context.signal.aborted) return this.context.signal.reason;
    return describePostgresError(error, "sink", "sink_rejected_rows");
  }
}
