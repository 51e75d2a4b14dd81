// A Postgres database as a source: one slot, the publications, and the tables that the connector selects.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { TakenBatches, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import type { AskComputed } from "../../change/computed-columns.ts";
import type { CopyPart } from "../../change/copy-part.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { TableSize } from "../../change/page-range.ts";
import type { TableShape } from "../../change/relation.ts";
import { clientOptions, isEncrypted } from "../../connection/postgres-client.ts";
import { watchSession } from "../../connection/session-watch.ts";
import type { PostgresSourceConfig } from "../../connector/config/source-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { ChangeStream } from "../change-stream.ts";
import type { KeySource } from "../key-source.ts";
import type { ExcludedTable, KeptLog, Source } from "../source.ts";
import type { SnapshotPoint, TableRows } from "../table-source.ts";
import type { VerifySource } from "../verify-source.ts";
import { ExcludedTables } from "./catalog/excluded-tables.ts";
import { requireNamedTables, warningOfGone } from "./catalog/named-tables.ts";
import { withPartitions } from "./catalog/partitions.ts";
import { readTableNames, type TableNames } from "./catalog/table-names.ts";
import { selectionOf, type TableSelection } from "./catalog/table-selection.ts";
import { ControlSessions } from "./control-sessions.ts";
import { readDenial } from "./copy/read-denial.ts";
import { TableReader } from "./copy/table-reader.ts";
import { findShape, requireSameKeys } from "./publication/keyless-tables.ts";
import { SourcePublications } from "./publication/source-publications.ts";
import { endOlderSessions } from "./run-sessions.ts";
import { GeneratedColumns } from "./shapes/generated-columns.ts";
import { RelationRegistry } from "./shapes/relation-registry.ts";
import { SilentChanges } from "./shapes/silent-changes.ts";
import { StreamShapes } from "./shapes/stream-shapes.ts";
import type { SourceTable } from "./shapes/table-shapes.ts";
import { readTablesFingerprint } from "./shapes/tables-fingerprint.ts";
import { readSenderFacts } from "./slot/sender-facts.ts";
import { walsenderName } from "./slot/slot-holder.ts";
import { type SlotContext, SourceSlot } from "./slot/source-slot.ts";
import { type StreamPace, streamPace } from "./stream/feedback.ts";
import { writeHeartbeat } from "./stream/heartbeat.ts";
import { PostgresStream } from "./stream/postgres-stream.ts";
import { streamBounds } from "./stream/stream-buffer.ts";

/** For a database whose tables are altered all the time. */
const maxReads = 5;

/** The intervals at which the source acts. */
export interface SourcePace extends StreamPace {
  readonly tableCheckMs: number;
  readonly slotReachedAfterMs?: number;
}

const defaultPace: SourcePace = { ...streamPace, tableCheckMs: 10_000 };

export class PostgresSource implements Source {
  readonly database: string;
  readonly #selection: TableSelection;
  readonly #reader: TableReader;
  readonly #sessions: ControlSessions;
  readonly #slot: SourceSlot;
  readonly #publications: SourcePublications;
  #tables: readonly SourceTable[] = [];
  /** Of the catalog's table definitions, when `tables` read them last. */
  #fingerprint = "";
  #names: TableNames | null = null;
  #stream: PostgresStream | null = null;
  #registry: RelationRegistry | null = null;
  #hasWarnedOfHeartbeats = false;
  readonly #silentChanges: SilentChanges;
  readonly #shapes: StreamShapes;
  readonly #generated: GeneratedColumns;
  readonly #excluded: ExcludedTables;
  /** `SilentChanges.found` when each point was taken; and, by table, the least of these among the points that it was read as of. */
  readonly #foundBefore = new WeakMap<SnapshotPoint, number>();
  readonly #copiedAsOf = new Map<number, number>();
  readonly #closing = new AbortController();
  readonly excluded = (): readonly ExcludedTable[] => this.#excluded.tables;
  readonly verification: VerifySource;
  readonly keys: KeySource;
  /** Where changes are streamed, an absent table is only a warning. */
  readonly absent = (): null => null;

  constructor(
    private readonly config: PostgresSourceConfig,
    slot: string,
    private readonly maxBufferedRows: number,
    private readonly context: SlotContext,
    private readonly pace: SourcePace = defaultPace,
  ) {
    this.database = config.connection.database;
    const { state, events, sinkFollowsShapes } = context;
    this.#publications = new SourcePublications(config, slot, context);
    this.#selection = selectionOf(config);
    this.#sessions = new ControlSessions(config.connection, context.signal, context);
    const { checkPermits } = this.#sessions;
    this.#slot = new SourceSlot(slot, config.connection, context, checkPermits, pace.slotReachedAfterMs);
    this.#reader = new TableReader(config.connection, this.#selection, context.signal, context, checkPermits);
    this.verification = this.#reader;
    this.keys = this.#reader.keys;
    this.#silentChanges = new SilentChanges(state, sinkFollowsShapes, (reason) =>
      events.warning("silent changes", reason),
    );
    const reading = { selection: this.#selection, partitionsAsRoot: config.partitions_as_root };
    this.#excluded = new ExcludedTables({ ...reading, publication: this.#publications.named });
    this.#generated = new GeneratedColumns(reading, context, this.#publications.named);
    this.#shapes = new StreamShapes({
      ...reading,
      generated: this.#generated,
      silentChanges: this.#silentChanges,
      arePublicationsNamed: this.#publications.areNamed,
      signal: context.signal,
    });
  }

  async tables(ask?: AskComputed): Promise<readonly TableShape[]> {
    return await this.#sessions.with(async (client) => {
      // The run's first word to the source.
      if (this.#fingerprint === "") await endOlderSessions(client, this.context);
      for (let reads = 1; ; reads++) {
        try {
          return await this.#readTables(client, ask);
        } catch (error) {
          const isVerdict = error instanceof MillraceError && error.retry === "permanent";
          if (!isVerdict || reads === maxReads) throw error;
          // A verdict on tables that were altered between two queries may be wrong.
          if ((await readTablesFingerprint(client)) === this.#fingerprint) throw error;
        }
      }
    });
  }

  async #readTables(client: Client, ask: AskComputed | undefined): Promise<readonly TableShape[]> {
    await this.#slot.requireSource(client);
    for (const each of [this.#shapes, this.#reader]) each.beginRead();
    this.#fingerprint = await readTablesFingerprint(client);
    const selected = await this.#generated.read(client, ask, this.#stream !== null);
    const shapes = await withPartitions(client, this.context, this.#silentChanges, selected);
    this.#checkNamedTables(shapes);
    const names = await readTableNames(client);
    const carried = await this.#publications.read(client, shapes);
    // Only what is carried can differ at the sink. A table that joins a publication later is copied then.
    this.#silentChanges.compare(carried, names.at);
    const tables = this.#silentChanges.withCoverage(this.#generated.withCoverage(carried));
    if (this.#stream) requireSameKeys(this.#tables, tables);
    this.#tables = tables;
    await this.#excluded.read(client, tables, this.#publications.unpublishable);
    this.#shapes.tablesRead(tables);
    this.#names = names;
    this.#registry?.addTableNames(names);
    return this.#tables;
  }

  /** Before the connector has begun, a name without a table is a mistake. */
  #checkNamedTables(shapes: readonly TableShape[]): void {
    if (this.context.isBegun === true || this.#stream !== null)
      this.context.events.warning("named tables", warningOfGone(this.config.catalog, shapes));
    else requireNamedTables(this.config.catalog, shapes);
  }

  async publish(): Promise<void> {
    await this.#sessions.with(async (client) => {
      const willMake = () => this.#slot.willMakeObjects(client);
      await this.#publications.publish(client, this.#tables, willMake);
    });
    for (const each of [this.#generated, this.#silentChanges]) each.published(this.#tables);
  }

  async tablesChanged(): Promise<void> {
    const signal = AbortSignal.any([this.context.signal, this.#closing.signal]);
    // Checks at least once: something may have changed between the last call of `tables` and this one.
    for (let seen: Lsn | undefined; ; ) {
      await sleep(this.pace.tableCheckMs, undefined, { signal }).catch(() => signal.throwIfAborted());
      if (this.#shapes.isStale) return;
      const logEnd = this.#stream?.logEnd;
      if (logEnd === seen) continue;
      // A failed check does not fail the run: the stream itself notices when the server is gone.
      const isChanged = await this.areTablesChanged().catch(() => null);
      if (isChanged) return;
      if (isChanged !== null) seen = logEnd;
    }
  }

  async areTablesChanged(): Promise<boolean> {
    if (this.#shapes.isStale || this.#reader.isStale) return true;
    return await this.#sessions.with(async (client) => {
      if ((await readTablesFingerprint(client)) !== this.#fingerprint) return true;
      return await this.#publications.areChanged(client);
    });
  }

  async announceShapes(tables: readonly TableShape[]): Promise<void> {
    await this.#sessions.with((client) => this.#shapes.announce(client, tables));
  }

  async createSlot(stop: AbortSignal): Promise<SnapshotPoint> {
    const { found } = this.#silentChanges;
    const signal = AbortSignal.any([this.context.signal, stop]);
    return await this.#sessions.withKept(async (session) => {
      await this.#slot.drop(session.client, signal);
      try {
        const point = await this.#slot.create(session, signal);
        this.#foundBefore.set(point, found);
        return point;
      } catch (error) {
        // After a permanent failure nothing is left behind; the next attempt publishes again.
        const isForGood = error instanceof MillraceError && error.retry === "permanent";
        if (isForGood) await this.#publications.dropOwn(session.client);
        throw error;
      }
    }, signal);
  }

  checkLog(checkpoint: Checkpoint): Promise<string> {
    return this.#slot.checkLog(checkpoint);
  }

  async checkSlot(checkpoint: Checkpoint): Promise<void> {
    this.#publications.requireStreamed(checkpoint);
    await this.#sessions.with((client) => this.#slot.check(client, checkpoint));
  }

  async snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint> {
    const { found } = this.#silentChanges;
    const signal = AbortSignal.any([this.context.signal, stop]);
    const point = await this.#sessions.withKept((session) => this.#slot.laterPoint(session, signal), signal);
    this.#foundBefore.set(point, found);
    return point;
  }

  readDenial(table: TableShape): Promise<MillraceError | null> {
    return this.#sessions.with((client) => readDenial(client, table));
  }

  measure(table: TableShape): Promise<TableSize | null> {
    // Forget what a failed attempt has read.
    this.#copiedAsOf.delete(table.relation.id);
    return this.#reader.measure(table);
  }

  readTable(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableRows {
    const { id } = table.relation;
    const found = this.#foundBefore.get(point) ?? 0;
    const before = part?.kind === "range" ? (this.#copiedAsOf.get(id) ?? found) : found;
    if (part?.kind !== "rows") this.#copiedAsOf.set(id, Math.min(before, found));
    return this.#reader.copy(table, point, form, part);
  }

  copied(table: TableShape, since?: SnapshotPoint): void {
    const { id } = table.relation;
    const asOf = this.#copiedAsOf.get(id) ?? 0;
    this.#silentChanges.copied(id, since ? Math.min(asOf, this.#foundBefore.get(since) ?? 0) : asOf);
  }

  keptLog(): Promise<KeptLog | null> {
    return this.#sessions.with((client) => this.#slot.keptLog(client, this.#stream));
  }

  async stream(checkpoint: Checkpoint, form: TupleForm, taken: TakenBatches = {}): Promise<ChangeStream> {
    const { encrypted, walSenderTimeoutMs, logEnd, isStandby } = await this.#sessions.with(async (client) => {
      // The slot was checked before the copies, which may have taken long.
      await this.#slot.free(client);
      return { encrypted: isEncrypted(client), ...(await readSenderFacts(client)) };
    });
    const registry = new RelationRegistry(
      this.#selection,
      this.#tables,
      (oid) => findShape(this.#tables, oid, this.context.state),
      (relation) => this.#shapes.recordSkipped(relation),
      form,
      this.#generated.leavesOut,
    );
    if (this.#names) registry.addTableNames(this.#names);
    this.#registry = registry;
    this.#stream = await PostgresStream.start({
      client: {
        ...clientOptions(this.config.connection, "replication", encrypted),
        application_name: walsenderName(this.context),
      },
      request: {
        slot: this.#slot.name,
        publications: await this.#publications.toStream(),
        startLsn: checkpoint.resumeLsn,
        form,
        takesInProgress: taken.takesInProgress === true,
        log: checkpoint.log,
      },
      checkpoint,
      registry,
      walSenderTimeoutMs,
      logEnd,
      bounds: streamBounds(this.maxBufferedRows, this.context.batchBytes, taken.maxTables),
      describe: (announced) => this.#sessions.with((client) => this.#shapes.describe(client, announced)),
      beforeHandOut: () => this.#silentChanges.durable(),
      shapesAt: (marker, at) => this.#shapes.take(marker, at),
      pace: this.pace,
      writeHeartbeat: () => this.#writeHeartbeat(),
      watch: (client, onWorking) =>
        watchSession({ ...this.#sessions.watched(client), movement: "received", firstCheckMs: 0, onWorking }),
      signal: this.context.signal,
    });
    this.#slot.streams(isStandby);
    return this.#stream;
  }

  /** A failed heartbeat does not fail the run: the stream itself notices when the server is gone. */
  async #writeHeartbeat(): Promise<void> {
    const denial = await this.#sessions.with(writeHeartbeat).catch(() => null);
    if (denial === null || this.#hasWarnedOfHeartbeats) return;
    this.#hasWarnedOfHeartbeats = true;
    this.context.events.warning("heartbeat", denial);
  }

  /** Snapshot points and streams close their own sessions. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#reader[Symbol.asyncDispose](), this.#sessions[Symbol.asyncDispose]()]);
    this.#closing.abort(new Error("the source is closed"));
  }
}
