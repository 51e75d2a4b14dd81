// A copy that is made while the stream goes on, for this table too: DBLog's watermark scheme. Each chunk waits in a staging table and is
// written to the target in pieces, between two batches. Rows whose keys the stream has touched since the copy started are skipped.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { copyInvalidated } from "../../copy-invalidated.ts";
import type { CopyChunk, Settled, StartedCopy, TableCopy } from "../../copy-sink.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { type CopiedRange, dropCopy, forgetCopy, recordRange } from "../bookkeeping/copy-records.ts";
import { recordPartial } from "../bookkeeping/incomplete-rows.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import {
  type ChunkTarget,
  chunkInsertSql,
  chunkUpdateSql,
  deleteUncopiedSql,
  type Pages,
} from "./chunk-sql.ts";
import { pagesOf, stageChunk, type TakenChunk, writtenOf } from "./chunk-staging.ts";
import type { CopyContext } from "./copy-context.ts";
import { chunkTable, type HelperTables, helperTables } from "./helper-tables.ts";
import { isUpToDate } from "./incremental-eligibility.ts";
import { parseFingerprint } from "./interrupted-copies.ts";
import { PiecePace } from "./piece-pace.ts";
import { type CopyOutcome, hasRows, recordOutcome } from "./whole-copy.ts";

const lockWaitMs = 1_000;
/** Only autovacuum locks the copy's own tables. It is cancelled after `deadlock_timeout`, which is 1 s by default. */
const dropWaitMs = 5_000;

export interface BegunCopy {
  /** Rows that the copy does not bring are deleted. */
  readonly replaces: boolean;
  readonly form: TupleForm;
  /** As it was when the copy began. */
  readonly target: TargetTable;
  /** The table has no copy yet. */
  readonly isFirst: boolean;
}

/** What must not change at the target while a copy is made. */
export function targetFacts({ oid, columns, uniqueKeys, isReferred, refersTo }: TargetTable): string {
  return JSON.stringify([oid, columns, uniqueKeys, isReferred, refersTo]);
}

export class IncrementalCopy implements TableCopy {
  readonly stream = "runs";
  readonly #chunks: TakenChunk[] = [];
  readonly #tables: HelperTables;
  readonly #pace = new PiecePace();
  /** In `replace` mode, the pages of the target that are still to be searched for rows to delete; null: not begun. */
  #removed: Pages | null = null;
  #chunkCount = 0;
  /** The target was empty when the copy started. Rows that it has later come from the stream. */
  #isNew = false;
  /** The latest point of a chunk. */
  #point: Lsn = zeroLsn;
  #isDivided = false;
  #isMade = false;

  constructor(
    private readonly context: CopyContext,
    private readonly begun: BegunCopy,
  ) {
    const { sink, table } = context;
    this.#tables = helperTables(sink.connector.connectorId, table.relation.id);
  }

  async start(isDivided: boolean): Promise<StartedCopy> {
    this.#requireValid();
    this.#isDivided = isDivided;
    await this.#recordTouched();
    const { sink, table } = this.context;
    const done = sink.tables.records.of(table.relation.id, "incremental")?.ranges ?? [];
    const rows = done.reduce((sum, range) => sum + range.rows, 0);
    for (const { point } of done) if (point > this.#point) this.#point = point;
    return { form: this.begun.form, ranges: isDivided ? { done, rows } : null };
  }

  async take(chunk: CopyChunk): Promise<void> {
    this.#requireValid();
    if (chunk.lsn > this.#point) this.#point = chunk.lsn;
    const { sink, table } = this.context;
    const staging = chunkTable(sink.connector.connectorId, table.relation.id, ++this.#chunkCount);
    const how = { staging, isNew: this.#isNew, recordsSeen: this.begun.replaces };
    const taken = await this.context.takeCounted(chunk, false, async (client, { form, chunks }) =>
      stageChunk(client, { chunk: await this.#target(client), ...how }, form, chunks),
    );
    const range = chunk.part?.kind === "range" ? chunk.part.range : null;
    chunk.phase?.("Writing", 0);
    this.#chunks.push({ staging, range, point: chunk.lsn, ...taken, phase: chunk.phase, next: 0 });
  }

  async settle(): Promise<Settled> {
    this.#requireValid();
    const [chunk] = this.#chunks;
    if (!chunk) return "all";
    const put = await this.#inTransaction((client, target) => this.#settlePiece(client, target, chunk));
    if (put === "locked") return put;
    chunk.next = put.next;
    chunk.phase?.("Writing", writtenOf(chunk));
    if (chunk.next >= chunk.pages) {
      this.#chunks.shift();
      const { sink, table } = this.context;
      if (put.copied) sink.tables.records.added(table.relation.id, put.copied);
    }
    return this.#chunks.length > 0 ? "more" : "all";
  }

  async finish(): Promise<Settled | "incomplete"> {
    this.#requireValid();
    const { connector, tables } = this.context.sink;
    const { id } = this.context.table.relation;
    const piece = await this.#inTransaction(async (client, target) => {
      const removed = this.begun.replaces ? await this.#removeUncopied(client, target) : null;
      if (removed !== null && removed.from < removed.to) return { removed, outcome: null };
      const outcome = await this.#record(client, target.target);
      await forgetCopy(client, connector.connectorId, id);
      return { removed, outcome };
    });
    if (piece === "locked") return piece;
    const { removed, outcome } = piece;
    // Only now: a rollback brings the rows back.
    this.#removed = removed;
    if (outcome === null) return "more";
    this.#isMade = true;
    tables.touched.end(id);
    this.context.made(outcome);
    return outcome.isStillIncomplete ? "incomplete" : "all";
  }

  /** Uses a session of its own, as a batch may be applied meanwhile. The next run drops what cannot be dropped now. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { connector, tables } = this.context.sink;
    const { records, touched, underWay } = tables;
    const { id } = this.context.table.relation;
    underWay.end(id);
    const active = touched.get(id);
    if (active) active.idleSinceMs = performance.now();
    const record = records.of(id, "incremental");
    // An earlier attempt may have copied ranges.
    const isDivided = this.#isDivided || (record?.ranges.length ?? 0) > 0;
    if (record === null || (!this.#isMade && isDivided && active?.invalidatedBy === null)) return;
    const drop = async (client: Client) => {
      await client.query(`set local lock_timeout = ${dropWaitMs}`);
      await dropCopy(client, connector.connectorId, id);
    };
    // First: a batch must not record keys in a table that is being dropped.
    touched.end(id);
    records.ended(id);
    await this.context.inSession(drop, { isLast: true }).catch(() => {});
  }

  /**
   * Sets the low watermark: chunks skip keys that the stream touches from here on. Keys that were recorded since an earlier attempt began stay:
   * the target has what the stream brought.
   */
  async #recordTouched(): Promise<void> {
    const { table, sink } = this.context;
    const { touched, records } = sink.tables;
    const { isFirst, target } = this.begun;
    const { id } = table.relation;
    const record = records.of(id, "incremental");
    if (record === null) throw copyInvalidated(table.relation, "was copied anew");
    const { keyNames, shape } = parseFingerprint(record.fingerprint);
    const { touched: keys } = this.#tables;
    const isEmpty = () => this.#inTransaction(async (client) => !(await hasRows(client, target)));
    // One that is locked counts as not empty: its rows are compared in vain at most.
    this.#isNew = isFirst && (await isEmpty()) === true;
    const active = touched.of(table.relation) ?? touched.begin({ tableId: id, keys, keyNames, shape });
    active.idleSinceMs = null;
  }

  /** Writes some staged pages to the target. The last piece records that the chunk is done: `copied` is the range that it completes. */
  async #settlePiece(
    client: Client,
    chunk: ChunkTarget,
    taken: TakenChunk,
  ): Promise<Pick<TakenChunk, "next"> & { readonly copied: CopiedRange | null }> {
    const { sink, table } = this.context;
    const { staging, range, point, rows } = taken;
    const next = Math.min(taken.pages, taken.next + this.#pace.size);
    const pages = { from: taken.next, to: next };
    const write = async () => {
      const update = this.#isNew ? null : chunkUpdateSql(chunk, staging, pages);
      if (update !== null) await client.query(update);
      await client.query(chunkInsertSql(chunk, staging, pages));
    };
    // Nothing to write: do not lock the target.
    if (next > taken.next) await this.#write(client, chunk.target, next - taken.next, write);
    if (next < taken.pages) return { next, copied: null };
    await client.query(`drop table ${sqlName(staging)}`);
    const copied = range && { ...range, point, rows };
    if (copied) await recordRange(client, sink.connector.connectorId, table.relation.id, copied);
    return { next, copied };
  }

  /** Deletes rows that no chunk brought, from some pages of the target. Returns which pages are left. */
  async #removeUncopied(client: Client, chunk: ChunkTarget): Promise<Pages> {
    const { target } = chunk;
    // A partitioned table has no pages of its own.
    const isDivisible = target.ownRows.startsWith("only ");
    const begin = async () => ({ from: 0, to: isDivisible ? await pagesOf(client, target.target) : 1 });
    const { from, to: end } = this.#removed ?? (await begin());
    if (from >= end) return { from, to: end };
    const to = Math.min(end, from + this.#pace.size);
    const pages = isDivisible ? { from, to } : null;
    await this.#write(client, target, to - from, () => client.query(deleteUncopiedSql(chunk, pages)));
    return { from: to, to: end };
  }

  /** Takes the table's lock or fails at once: the stream must not wait for another session's lock. */
  async #write(
    client: Client,
    target: TargetTable,
    pages: number,
    write: () => Promise<unknown>,
  ): Promise<void> {
    await client.query(`lock table ${target.ownRows} in row exclusive mode nowait`);
    await this.#pace.measure(pages, () => withLateChecks(client, target, write));
  }

  /** Does a piece of work in a transaction of its own. Returns `locked` where another session holds a lock: try again later. */
  async #inTransaction<T>(work: (client: Client, target: ChunkTarget) => Promise<T>): Promise<T | "locked"> {
    return await this.context.betweenBatches(async (client) => {
      try {
        await client.query(
          `begin; set local lock_timeout = ${lockWaitMs}; set local enable_hashjoin = off; set local enable_mergejoin = off`,
        );
        const result = await work(client, await this.#target(client));
        await client.query("commit");
        return result;
      } catch (error) {
        await client.query("rollback").catch(() => {});
        if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
        return "locked";
      }
    });
  }

  async #target(client: Client): Promise<ChunkTarget> {
    const { target: before, isFirst } = this.begun;
    const { relation } = this.context.table;
    const target = await readTargetTable(client, before.target);
    if (target === null || targetFacts(target) !== targetFacts(before))
      throw copyInvalidated(relation, "was altered at the sink");
    return { tables: this.#tables, target, relation, keepsOrigin: !isFirst };
  }

  /** As any other copy. Rows that the stream brought in part are incomplete from here on. */
  async #record(client: Client, target: TargetTable): Promise<Omit<CopyOutcome, "rows">> {
    const { table, sink } = this.context;
    const { connector, tables } = sink;
    const { relation } = table;
    const areIncomplete = await recordPartial(client, connector.connectorId, relation, this.#tables.touched);
    // Rows that were copied by key meanwhile are ahead.
    const ahead = tables.ledger.pointOf(relation.id) ?? zeroLsn;
    const point: Lsn = this.#point;
    const isMixed = areIncomplete || ahead > point;
    const made = { point: ahead > point ? ahead : point, isMerged: isMixed, first: isMixed ? zeroLsn : null };
    return await recordOutcome(client, connector, table, made, this.context.known(), target, []);
  }

  /** Throws `table_changed` unless the sink still applies the table's changes to the same target. */
  #requireValid(): void {
    const { relation } = this.context.table;
    const { tables } = this.context.sink;
    const { touched, underWay, setAside } = tables;
    const invalidatedBy = touched.get(relation.id)?.invalidatedBy;
    if (invalidatedBy) throw copyInvalidated(relation, invalidatedBy);
    if (this.begun.isFirst) underWay.requireValid(relation);
    const isStillApplied = this.begun.isFirst
      ? underWay.has(relation) && !setAside.has(relation.id)
      : isUpToDate(tables, relation);
    if (!isStillApplied) throw copyInvalidated(relation, "was left out, or is to be copied anew,");
  }
}
