// A Postgres database as a sink: exactly once, because the checkpoint moves in the transaction that writes the rows.

import type { Client } from "pg";
import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import type { Lsn } from "../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../change/relation.ts";
import { closeClient, destroyClient } from "../../connection/postgres-client.ts";
import { describePostgresError } from "../../connection/postgres-failure.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { CopyRequest, PreparedTables, Sink, SinkContext } from "../sink.ts";
import { BatchApplier } from "./batch-applier.ts";
import {
  ensureBookkeeping,
  forgetConnector,
  insertCheckpoint,
  lockConnector,
  moveCheckpoint,
  readBookkeeping,
  shareConnectorLock,
  updateLog,
} from "./bookkeeping.ts";
import { CopyLedger } from "./copy-ledger.ts";
import { watchCopy } from "./copy-watch.ts";
import { describeRefusedRows } from "./refused-rows.ts";
import { remedyFor } from "./remedy.ts";
import { ShapeLedger } from "./shape-ledger.ts";
import { openApplySession, openCopySession } from "./sink-session.ts";
import { copyIntoTarget } from "./table-copy.ts";
import type { MergeSession } from "./table-merge.ts";
import { TableRegistry } from "./table-registry.ts";
import { targetName } from "./target-name.ts";
import type { RolledBackTo } from "./undo-log.ts";

/** Each COMMIT empties every temporary table of the session, used or not. */
const maxStagingTables = 40;

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

export class PostgresSink implements Sink {
  #client: Client | null = null;
  #checkpoint: Checkpoint | null = null;
  readonly #ledger: CopyLedger;
  readonly #shapes: ShapeLedger;
  readonly #tables: TableRegistry;
  #form: TupleForm = "binary";
  readonly #staging: MergeSession["staging"] = new Map();
  #isInTransaction = false;
  /** Tables that the source has dropped, and whose last changes do not fit the sink's table. */
  readonly #leftOut = new Set<number>();
  #undurable = { rows: 0, bytes: 0 };

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly context: SinkContext,
  ) {
    this.#ledger = new CopyLedger(context.connectorId);
    this.#shapes = new ShapeLedger(context.connectorId);
    this.#tables = new TableRegistry(config, this.#ledger, this.#shapes, (reason) =>
      context.events.warning("guessed columns", reason),
    );
    context.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  async open(): Promise<Checkpoint | null> {
    const { signal, connectorId } = this.context;
    this.#client = await openApplySession(this.config, signal, (reason) =>
      this.context.events.warning("privileges", reason),
    );
    return await this.#guard(async (client) => {
      await ensureBookkeeping(client);
      await lockConnector(client, connectorId, false);
      await shareConnectorLock(client, connectorId);
      const { checkpoint, copies } = await readBookkeeping(client, connectorId);
      this.#checkpoint = checkpoint;
      this.#ledger.load(copies.values());
      await this.#shapes.load(client);
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

  async forget(): Promise<void> {
    await this.#guard((client) => forgetConnector(client, this.context.connectorId));
    this.#checkpoint = null;
    this.#ledger.voidKnown();
    this.#shapes.forget();
  }

  async prepare(tables: readonly TableShape[], forms: readonly TupleForm[]): Promise<PreparedTables> {
    return await this.#guard(async (client) => {
      const best = await this.#tables.look(client, tables);
      const isThere = (relation: Relation) => this.#tables.isThere(relation);
      await this.#ledger.void(client, this.#ledger.outdated(tables, isThere));
      await this.#ledger.remark(client, tables);
      this.#form = forms.includes(best) ? best : "text";
      const missing = tables.filter(({ relation }) => !this.#ledger.holds(relation));
      await this.#makeRoom(client, missing);
      return { form: this.#form, missing, behind: this.#tables.behind(tables) };
    });
  }

  async #makeRoom(client: Client, tables: readonly TableShape[]): Promise<void> {
    await client.query("begin");
    await this.#tables.makeRoom(client, tables);
    await client.query("commit");
    this.#shapes.committed();
    this.#ledger.committed();
  }

  copyForm(table: TableShape): TupleForm {
    return this.#tables.copyForm(table);
  }

  async copyTable(request: CopyRequest): Promise<void> {
    const { signal, connectorId } = this.context;
    const client = await openCopySession(this.config, signal);
    const abort = () => destroyClient(client);
    signal.addEventListener("abort", abort, { once: true });
    try {
      await lockConnector(client, connectorId, true);
      const watch = watchCopy(this.#connected, client, request);
      try {
        const mode = this.#ledger.isVoid(request.table.relation) ? "replace" : request.mode;
        const counted = { ...request, mode, chunks: watch.counted };
        const known = this.#shapes.of(request.table.relation);
        const { rows, record } = await whileWatched(this.#session(client, watch.isWaitingForRows), () =>
          copyIntoTarget(client, this.config, connectorId, counted, known),
        );
        await watch.finish(rows);
        this.#ledger.add(record);
        this.#shapes.add(request.table.relation, request.lsn);
      } finally {
        watch.stop();
      }
      this.#tables.forgetShapes();
      await closeClient(client);
    } catch (error) {
      destroyClient(client);
      if (signal.aborted) throw signal.reason;
      const { relation } = request.table;
      const names = relation.columns.map(({ name }) => name);
      throw describeRefusedRows(error, targetName(this.config, relation), names);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  async write(batch: ChangeBatch): Promise<void> {
    await this.#guard(async (client) => {
      await this.#applySafely(client, batch);
      this.#undurable.rows += batch.count;
      this.#undurable.bytes += batch.count > 0 ? Math.max(...lastOffsets(batch)) : 0;
      if (!batch.endsInTransaction) await this.#commit(client, batch.resumeLsn);
    });
  }

  /** What `write` has returned for is durable, but for the beginning of a transaction whose end is still to come. */
  async flush(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    this.context.signal.removeEventListener("abort", this.#onAbort);
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    if (this.#isInTransaction || this.context.signal.aborted) destroyClient(client);
    else await closeClient(client);
  }

  readonly #onAbort = () => {
    if (this.#client) destroyClient(this.#client);
  };

  get #connected(): Client {
    if (!this.#client) throw new Error("the sink is not open");
    return this.#client;
  }

  /** Applies the batch; what the server refuses is undone, remedied where it can be, and applied once more. */
  async #applySafely(client: Client, batch: ChangeBatch): Promise<void> {
    const wasInTransaction = this.#isInTransaction;
    if (!wasInTransaction) await client.query("begin");
    this.#isInTransaction = true;
    if (batch.count === 0) return;
    if (wasInTransaction) await this.#setSavepoint(client);
    let isCareful = false;
    while (true) {
      const applier = this.#applier(client, batch, isCareful);
      try {
        await applier.apply();
        break;
      } catch (error) {
        await this.#voidAltered(client);
        const remedy = remedyFor(error, isCareful, this.config.migration_strategy);
        if (remedy?.kind === "care") isCareful = true;
        else {
          const isAllowed = remedy !== null && this.#tables.allowNull(applier.current, remedy.column);
          if (!isAllowed && !this.#leaveOut(applier.current, error)) throw error;
        }
        await client.query(wasInTransaction ? "rollback to savepoint piece" : "rollback; begin");
        this.#forgetUncommitted(wasInTransaction ? "savepoint" : "begin");
      }
    }
    if (wasInTransaction) await client.query("release savepoint piece");
    // The next piece rolls back to a savepoint of its own.
    for (const state of this.#staging.values()) state.outlivesRollback = true;
  }

  async #setSavepoint(client: Client): Promise<void> {
    await client.query("savepoint piece");
    this.#shapes.savepoint();
    this.#ledger.savepoint();
  }

  /** A table that the source no longer has must not keep the others: there is nothing to mend it from. */
  #leaveOut(relation: Relation | null, error: unknown): boolean {
    const isRefusal = error instanceof MillraceError && refusals.has(error.code);
    if (!isRefusal || !relation?.isGone || this.#leftOut.has(relation.id)) return false;
    this.#leftOut.add(relation.id);
    this.context.events.warning(
      "dropped tables",
      `Table ${qualifiedName(relation)} was dropped at the source. Its last changes do not fit the sink's table and are left ` +
        `out: ${error.message}`,
    );
    return true;
  }

  /** The copy of a table that was altered while it was caught up with is made again, by the next run. */
  async #voidAltered(client: Client): Promise<void> {
    const altered = this.#tables.takeAltered();
    if (altered === null) return;
    await client.query("rollback");
    this.#forgetUncommitted("begin");
    await this.#ledger.voidOf(client, altered);
  }

  /** After a rollback, staging tables and changes of tables that the transaction had made are gone. */
  #forgetUncommitted(to: RolledBackTo): void {
    for (const [name, state] of this.#staging) if (!state.outlivesRollback) this.#staging.delete(name);
    this.#tables.forgetShapes();
    this.#shapes.rolledBack(to);
    this.#ledger.rolledBack(to);
  }

  #applier(client: Client, batch: ChangeBatch, careful: boolean): BatchApplier {
    const session: MergeSession = {
      client,
      form: this.#form,
      staging: this.#staging,
      careful,
      repeats: false,
      warn: (reason) => this.context.events.warning("rows", reason),
    };
    return new BatchApplier(session, batch, {
      prepare: (relation, at) => this.#tables.prepared(client, relation, this.#form, at),
      copyOf: (relation) => this.#ledger.stateOf(relation),
      leftOut: this.#leftOut,
    });
  }

  async #commit(client: Client, resumeLsn: Lsn): Promise<void> {
    const from = this.#checkpoint;
    if (!from) throw new Error("a write before begin");
    await moveCheckpoint(client, this.context.connectorId, from.resumeLsn, resumeLsn);
    if (this.#staging.size > maxStagingTables) await this.#dropStaging(client);
    await client.query("commit");
    this.#isInTransaction = false;
    this.#shapes.committed();
    this.#ledger.committed();
    for (const state of this.#staging.values()) state.dirty = false;
    this.#checkpoint = { ...from, resumeLsn };
    const { rows, bytes } = this.#undurable;
    this.#undurable = { rows: 0, bytes: 0 };
    this.context.events.durable(this.#checkpoint, rows, bytes);
  }

  async #dropStaging(client: Client): Promise<void> {
    const names = [...this.#staging.keys()].map((name) => `pg_temp.${name}`);
    await client.query(`drop table ${names.join(", ")}`);
    this.#staging.clear();
  }

  #session(client: Client, isOurTurn = () => false): WatchedSession {
    const { connection } = this.config;
    return { connection, side: "sink", client, isOurTurn, signal: this.context.signal };
  }

  async #guard<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const client = this.#connected;
    try {
      return await whileWatched(this.#session(client), () => action(client));
    } catch (error) {
      throw this.#described(error);
    }
  }

  #described(error: unknown): unknown {
    if (this.context.signal.aborted) return this.context.signal.reason;
    return describePostgresError(error, "sink", "sink_rejected_rows");
  }
}

function lastOffsets(batch: ChangeBatch): readonly [number, number] {
  return [batch.oldEnd[batch.count - 1]!, batch.newEnd[batch.count - 1]!];
}
