// A copy of one table that is made while batches are applied to it: its rows lie in a table of their own, and what they come to is put
// into place between the batches. What is exact about it is told in mend-list.ts and touch-notes.ts.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { PageRange } from "../../change/page-range.ts";
import type { TableShape } from "../../change/relation.ts";
import { sqlStateOf } from "../../connection/postgres-failure.ts";
import { sqlName } from "../../connection/sql-name.ts";
import { sqlState } from "../../connection/sql-state.ts";
import type { CopyBeside, CopyRequest, SettledPiece } from "../sink.ts";
import { type BesideTables, dropBesideTables } from "./beside-tables.ts";
import { type ConnectorAtSink, lockForCopy } from "./connector-lock.ts";
import { copyIn } from "./copy-in.ts";
import {
  listRows,
  type Mending,
  mendAllRows,
  mendRows,
  type RowTies,
  readRowTies,
  takeOwed,
} from "./mend-list.ts";
import { PassingChunks } from "./passing-chunks.ts";
import { sqlList } from "./target-name.ts";
import { readTargetTable, type TargetTable } from "./target-table.ts";
import { besideSpoiled, type TouchedKeys, type TouchedTable } from "./touched-keys.ts";

/** A piece that the stream waits for takes about so long. */
const pieceMs = 100;
const firstPieceRows = 500;
const lockWaitMs = 1_000;

export interface CopyBesideOptions {
  readonly connector: ConnectorAtSink;
  readonly table: TableShape;
  readonly mode: "merge" | "replace";
  readonly form: TupleForm;
  readonly tables: BesideTables;
  readonly touchedKeys: TouchedKeys;
  readonly touched: TouchedTable;
  /** As it was when the copy began. */
  readonly target: TargetTable;
  /** Runs an action in a session beside the one that applies. */
  readonly inSession: <T>(action: (client: Client) => Promise<T>, how?: BesideSession) => Promise<T>;
  /** Runs an action in the session that applies: no batch is being applied. */
  readonly inTurn: <T>(action: (client: Client) => Promise<T>) => Promise<T>;
  /** Throws unless the sink goes on applying the table's changes, to the table that it was. */
  readonly requireFollowed: () => void;
}

export interface BesideSession {
  /** For the source. */
  readonly isWaiting?: () => boolean;
  /** Also where the copy was told to stop. */
  readonly isLast?: boolean;
}

export class PostgresCopyBeside implements CopyBeside {
  readonly takesAfterPoint = false;
  #listed = 0;
  /** Rows of the list that are written, and how many are next. */
  #mended = 0;
  #pieceRows = firstPieceRows;
  #ties: RowTies = { areApart: false, areReferred: false };

  constructor(private readonly options: CopyBesideOptions) {}

  get form(): TupleForm {
    return this.options.form;
  }

  /** Its ranges are forgotten with it. */
  async divide(): Promise<readonly PageRange[]> {
    return [];
  }

  async take(request: CopyRequest): Promise<void> {
    const { inSession, connector, table, tables } = this.options;
    this.#requireUnspoiled();
    const columns = sqlList(table.relation.columns.map(({ name }) => name));
    const passing = new PassingChunks(request);
    const rows = await inSession(
      async (client) => {
        await client.query("begin");
        await lockForCopy(client, connector);
        const sql = `copy ${sqlName(tables.rows)} (${columns}) from stdin (format ${request.form})`;
        const rows = await copyIn(client, sql, passing.chunks());
        await client.query("commit");
        return rows;
      },
      { isWaiting: () => passing.isWaiting },
    );
    request.progress(rows, passing.bytes);
  }

  async compare(): Promise<void> {
    const { inSession, connector } = this.options;
    this.#requireUnspoiled();
    await inSession(async (client) => {
      await client.query("begin");
      await lockForCopy(client, connector);
      const mending = await this.#mending(client);
      this.#ties = await readRowTies(client, mending);
      this.#listed = await listRows(client, mending);
      await client.query("commit");
    });
  }

  async settle(): Promise<SettledPiece> {
    this.#requireUnspoiled();
    return await this.options.inTurn(async (client) => {
      try {
        await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
        const mending = await this.#mending(client);
        const piece =
          this.#mended < this.#listed
            ? await this.#mend(client, mending)
            : { isHeld: false, ...(await takeOwed(client, mending)) };
        await client.query("commit");
        return piece;
      } catch (error) {
        await client.query("rollback").catch(() => {});
        if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
        return { isMore: true, isHeld: true, owed: [] };
      }
    });
  }

  /** What cannot be dropped now is dropped by the next run. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { touchedKeys, touched, inSession, connector, tables } = this.options;
    touchedKeys.end(touched);
    const drop = async (client: Client) => {
      await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
      await lockForCopy(client, connector);
      await dropBesideTables(client, connector.connectorId, tables);
      await client.query("commit");
    };
    await inSession(drop, { isLast: true }).catch(() => {});
  }

  async #mend(client: Client, mending: Mending): Promise<SettledPiece> {
    const { target } = mending;
    // The stream does not wait for whoever holds it.
    await client.query(`lock table ${target.ownRows} in row exclusive mode nowait`);
    const { areApart, areReferred } = this.#ties;
    const isDivisible = !areApart && !areReferred;
    const to = isDivisible ? Math.min(this.#listed, this.#mended + this.#pieceRows) : this.#listed;
    const begunAt = performance.now();
    if (areApart && !target.isReferred) await mendAllRows(client, mending, this.#listed);
    else await mendRows(client, mending, this.#mended, to, this.#ties);
    const tookMs = performance.now() - begunAt;
    if (tookMs < pieceMs / 2) this.#pieceRows *= 2;
    else if (tookMs > pieceMs) this.#pieceRows = Math.max(1, Math.floor(this.#pieceRows / 2));
    this.#mended = to;
    return { isMore: true, isHeld: false, owed: [] };
  }

  async #mending(client: Client): Promise<Mending> {
    const { table, tables, mode, target: before } = this.options;
    const { relation } = table;
    const target = await readTargetTable(client, before.target);
    if (target === null || !isSameTable(target, before))
      throw besideSpoiled(relation, "was altered at the sink");
    return { tables, target, relation, replaces: mode === "replace" };
  }

  #requireUnspoiled(): void {
    const { touched, table, requireFollowed } = this.options;
    if (touched.spoiledBy !== null) throw besideSpoiled(table.relation, touched.spoiledBy);
    requireFollowed();
  }
}

function isSameTable(table: TargetTable, before: TargetTable): boolean {
  const facts = ({ oid, columns, uniqueKeys, isReferred, refersTo }: TargetTable) =>
    JSON.stringify([oid, columns, uniqueKeys, isReferred, refersTo]);
  return facts(table) === facts(before);
}
