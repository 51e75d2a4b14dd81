// A Postgres database as a source: one slot, the publications, and the tables that the connector selects.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import type { CopyPart } from "../../change/copy-part.ts";
import { type Lsn, parseLsn } from "../../change/lsn.ts";
import type { TableSize } from "../../change/page-range.ts";
import type { TableShape } from "../../change/relation.ts";
import { clientOptions, isEncrypted } from "../../connection/postgres-client.ts";
import { watchSession } from "../../connection/session-watch.ts";
import type { PostgresSourceConfig } from "../../connector/config/source-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { ChangeStream, KeptLog, SnapshotPoint, Source, SourceContext, TableCopy } from "../source.ts";
import { requireNamedTables, warningOfGone } from "./catalog/named-tables.ts";
import { withPartitions } from "./catalog/partitions.ts";
import { readTableNames, type TableNames } from "./catalog/table-names.ts";
import { selectionOf, type TableSelection } from "./catalog/table-selection.ts";
import { ControlSessions } from "./control-sessions.ts";
import { readDenial } from "./copy/read-denial.ts";
import { TableReader } from "./copy/table-reader.ts";
import { requireSameKeys, shapeOrLook } from "./publication/keyless-tables.ts";
import { SourcePublications } from "./publication/source-publications.ts";
import { RelationRegistry } from "./shapes/relation-registry.ts";
import { SilentChanges } from "./shapes/silent-changes.ts";
import { StreamShapes } from "./shapes/stream-shapes.ts";
import { readTableShapes, readTablesFingerprint, type SourceTable } from "./shapes/table-shapes.ts";
import { judgeKeptLog, readKeptLog } from "./slot/kept-log.ts";
import { dropSlot, logEndSql } from "./slot/slot.ts";
import { walsenderName } from "./slot/slot-holder.ts";
import { SourceSlot } from "./slot/source-slot.ts";
import { type StreamPace, streamPace } from "./stream/feedback.ts";
import { writeHeartbeat } from "./stream/heartbeat.ts";
import { PostgresStream } from "./stream/postgres-stream.ts";
import { streamBounds } from "./stream/stream-buffer.ts";

/** Where tables are altered all the time. */
const maxLooks = 5;

/** How often the source looks after what nobody tells it of. */
export interface SourcePace extends StreamPace {
  readonly lookAtTablesMs: number;
}

const defaultPace: SourcePace = { ...streamPace, lookAtTablesMs: 10_000 };

export class PostgresSource implements Source {
  readonly #selection: TableSelection;
  readonly #reader: TableReader;
  readonly #sessions: ControlSessions;
  readonly #slot: SourceSlot;
  readonly #publications: SourcePublications;
  #tables: readonly SourceTable[] = [];
  /** Of the catalog, as `tables` saw it. */
  #fingerprint = "";
  #names: TableNames | null = null;
  #stream: PostgresStream | null = null;
  #registry: RelationRegistry | null = null;
  #hasWarnedOfBeats = false;
  readonly #silentChanges: SilentChanges;
  readonly #shapes: StreamShapes;
  /** How many silent changes had been found before a point was taken, and before the earliest that a table was read as of. */
  readonly #foundBefore = new WeakMap<SnapshotPoint, number>();
  readonly #copiedAsOf = new Map<number, number>();
  readonly #closing = new AbortController();

  constructor(
    private readonly config: PostgresSourceConfig,
    slot: string,
    private readonly maxBufferedRows: number,
    private readonly context: SourceContext,
    private readonly pace: SourcePace = defaultPace,
  ) {
    const { notes, events, sinkFollowsShapes } = context;
    this.#publications = new SourcePublications(config, slot, context);
    this.#selection = selectionOf(config);
    this.#sessions = new ControlSessions(config.connection, context.signal);
    const { looks } = this.#sessions;
    this.#slot = new SourceSlot(slot, config.connection, context, looks);
    this.#reader = new TableReader(config.connection, this.#selection, context.signal, looks);
    this.#silentChanges = new SilentChanges(notes, sinkFollowsShapes, (reason) =>
      events.warning("silent changes", reason),
    );
    this.#shapes = new StreamShapes({
      selection: this.#selection,
      partitionsAsRoot: config.partitions_as_root,
      arePublicationsNamed: this.#publications.areNamed,
      silentChanges: this.#silentChanges,
      signal: context.signal,
    });
  }

  get database(): string {
    return this.config.connection.database;
  }

  async tables(): Promise<readonly TableShape[]> {
    return await this.#sessions.with(async (client) => {
      for (let looks = 1; ; looks++) {
        try {
          return await this.#look(client);
        } catch (error) {
          const isVerdict = error instanceof MillraceError && error.retry === "permanent";
          if (!isVerdict || looks === maxLooks) throw error;
          // Of tables that were altered between two questions nothing can be said for good.
          if ((await readTablesFingerprint(client)) === this.#fingerprint) throw error;
        }
      }
    });
  }

  /** It is a warning: the stream goes on. */
  absent(): null {
    return null;
  }

  async #look(client: Client): Promise<readonly TableShape[]> {
    this.#shapes.beginLook();
    this.#fingerprint = await readTablesFingerprint(client);
    const selected = await readTableShapes(client, this.#selection, this.config.partitions_as_root);
    const shapes = await withPartitions(client, this.context, this.#silentChanges, selected);
    this.#seeToNamed(shapes);
    const names = await readTableNames(client);
    this.#silentChanges.look(shapes, names.at);
    const tables = await this.#publications.look(client, shapes);
    if (this.#stream) requireSameKeys(this.#tables, tables);
    this.#tables = tables;
    this.#shapes.looked(tables);
    this.#names = names;
    this.#registry?.looked(names);
    return this.#tables;
  }

  /** Before the beginning, a name that is not there is mistyped. */
  #seeToNamed(shapes: readonly TableShape[]): void {
    const { catalog } = this.config;
    if (this.context.isBegun === true || this.#stream !== null)
      this.context.events.warning("named tables", warningOfGone(catalog, shapes));
    else requireNamedTables(catalog, shapes);
  }

  async publish(): Promise<void> {
    await this.#sessions.with((client) => this.#publications.publish(client, this.#tables));
  }

  async tablesChanged(): Promise<void> {
    const signal = AbortSignal.any([this.context.signal, this.#closing.signal]);
    // The first look in any case: something may have come between the last call of `tables` and this one.
    for (let seen: Lsn | undefined; ; ) {
      await sleep(this.pace.lookAtTablesMs, undefined, { signal }).catch(() => signal.throwIfAborted());
      if (this.#shapes.isStale) return;
      const logEnd = this.#stream?.logEnd;
      if (logEnd === seen) continue;
      // A look that fails is no failure of the run: the stream sees by itself when the server is gone.
      const isChanged = await this.#sessions
        .with((client) => this.#areTablesChanged(client))
        .catch(() => null);
      if (isChanged === null) continue;
      if (isChanged) return;
      seen = logEnd;
    }
  }

  async #areTablesChanged(client: Client): Promise<boolean> {
    if ((await readTablesFingerprint(client)) !== this.#fingerprint) return true;
    return await this.#publications.areChanged(client);
  }

  async announceShapes(tables: readonly TableShape[]): Promise<void> {
    await this.#sessions.with((client) => this.#shapes.announce(client, tables));
  }

  async createSlot(stop: AbortSignal): Promise<SnapshotPoint> {
    const { found } = this.#silentChanges;
    const signal = AbortSignal.any([this.context.signal, stop]);
    return await this.#sessions.withForLong(async (client) => {
      await dropSlot(client, this.#slot.name, signal);
      try {
        const point = await this.#slot.create(client, signal);
        this.#foundBefore.set(point, found);
        return point;
      } catch (error) {
        // What cannot succeed before somebody mends it leaves nothing behind; the next beginning publishes again.
        const isForGood = error instanceof MillraceError && error.retry === "permanent";
        if (isForGood) await this.#publications.dropOwn(client);
        throw error;
      }
    }, signal);
  }

  checkLog(checkpoint: Checkpoint): Promise<string> {
    return this.#slot.checkLog(checkpoint);
  }

  async checkSlot(checkpoint: Checkpoint): Promise<void> {
    await this.#sessions.with((client) => this.#slot.check(client, checkpoint));
  }

  async snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint> {
    const { found } = this.#silentChanges;
    const signal = AbortSignal.any([this.context.signal, stop]);
    const point = await this.#sessions.withForLong((client) => this.#slot.laterPoint(client, signal), signal);
    this.#foundBefore.set(point, found);
    return point;
  }

  readDenial(table: TableShape): Promise<MillraceError | null> {
    return this.#sessions.with((client) => readDenial(client, table));
  }

  measure(table: TableShape): Promise<TableSize | null> {
    // What an attempt that failed has read does not count.
    this.#copiedAsOf.delete(table.relation.id);
    return this.#reader.measure(table);
  }

  copyTable(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableCopy {
    const { id } = table.relation;
    const found = this.#foundBefore.get(point) ?? 0;
    const before = part?.kind === "range" ? (this.#copiedAsOf.get(id) ?? found) : found;
    if (part?.kind !== "rows") this.#copiedAsOf.set(id, Math.min(before, found));
    return this.#reader.copy(table, point, form, part);
  }

  copied(table: TableShape, since?: SnapshotPoint): void {
    const { id } = table.relation;
    const asOf = this.#copiedAsOf.get(id) ?? 0;
    const before = since ? (this.#foundBefore.get(since) ?? 0) : asOf;
    this.#silentChanges.mended(id, Math.min(asOf, before));
  }

  async keptLog(): Promise<KeptLog | null> {
    const { name } = this.#slot;
    const facts = await this.#sessions.with((client) => readKeptLog(client, name));
    if (facts === null) return null;
    this.#stream?.sawLogEnd(facts.logEnd);
    return judgeKeptLog(name, facts);
  }

  async stream(checkpoint: Checkpoint, form: TupleForm, takesInProgress = false): Promise<ChangeStream> {
    const { encrypted, walSenderTimeoutMs, logEnd } = await this.#sessions.with(async (client) => {
      // Copies may have taken long since the slot was looked at.
      await this.#slot.free(client);
      const { rows } = await client.query<{ ms: number; end: string }>(
        `select setting::int4 as ms, (${logEndSql})::text as end from pg_settings where name = 'wal_sender_timeout'`,
      );
      return {
        encrypted: isEncrypted(client),
        walSenderTimeoutMs: rows[0]?.ms ?? 60_000,
        logEnd: parseLsn(rows[0]?.end ?? "0/0"),
      };
    });
    const bounds = streamBounds(this.maxBufferedRows);
    const registry = new RelationRegistry(
      this.#selection,
      this.#tables,
      (oid) => shapeOrLook(this.#tables, oid, this.context.notes),
      (relation) => this.#shapes.passOver(relation),
      form,
    );
    if (this.#names) registry.looked(this.#names);
    this.#registry = registry;
    this.#stream = await PostgresStream.start({
      client: {
        ...clientOptions(this.config.connection, "replication", encrypted),
        application_name: walsenderName(this.context.owner),
      },
      request: {
        slot: this.#slot.name,
        publications: this.#publications.names,
        startLsn: checkpoint.resumeLsn,
        form,
        takesInProgress,
        log: checkpoint.log,
      },
      checkpoint,
      registry,
      walSenderTimeoutMs,
      logEnd,
      bounds,
      describe: (announced) => this.#sessions.with((client) => this.#shapes.describe(client, announced)),
      settle: () => this.#silentChanges.settled(),
      shapesAt: (fence, at) => this.#shapes.take(fence, at),
      pace: this.pace,
      beat: () => this.#beat(),
      watch: (client) =>
        watchSession({ ...this.#sessions.watched(client), movement: "received", firstLookMs: 0 }),
      signal: this.context.signal,
    });
    return this.#stream;
  }

  /** One that fails is no failure of the run: the stream sees by itself when the server is gone. */
  async #beat(): Promise<void> {
    const denial = await this.#sessions.with(writeHeartbeat).catch(() => null);
    if (denial === null || this.#hasWarnedOfBeats) return;
    this.#hasWarnedOfBeats = true;
    this.context.events.warning("heartbeat", denial);
  }

  /** Points and streams close what they opened. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#reader[Symbol.asyncDispose](), this.#sessions[Symbol.asyncDispose]()]);
    this.#closing.abort(new Error("the source is closed"));
  }
}
