// A copy of one table that is made while batches are applied to it: its rows lie in a table of their own, and what they come to is put
// into place between the batches. What is exact about it is told in mend-list.ts and touch-notes.ts.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { CopyBeside, CopyRequest, HeldRanges, SettledPiece } from "../../sink.ts";
import { type ConnectorAtSink, lockForCopy } from "../bookkeeping/connector-lock.ts";
import { sqlList } from "../schema/target-name.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import {
  dropBesideTables,
  emptyBesideTables,
  forgetBesideTables,
  keepBesideTables,
  recordBesideRange,
  shareBesideTables,
} from "./beside-tables.ts";
import { copyIn } from "./copy-in.ts";
import type { KeptCopies, TakenUp } from "./kept-copies.ts";
import { type Mending, takeOwed } from "./mend-list.ts";
import { MendPieces } from "./mend-pieces.ts";
import { PassingChunks } from "./passing-chunks.ts";
import type { CopyOutcome } from "./table-copy.ts";
import { besideSpoiled, type TouchedKeys } from "./touched-keys.ts";

const lockWaitMs = 1_000;
/** Nobody but the server itself holds the copy's own tables, to vacuum them: it gives way after its `deadlock_timeout`. */
const dropWaitMs = 5_000;

export interface CopyBesideOptions {
  readonly connector: ConnectorAtSink;
  readonly table: TableShape;
  readonly mode: "merge" | "replace";
  readonly form: TupleForm;
  /** Its tables, and what it goes on with. */
  readonly kept: TakenUp;
  readonly keptCopies: KeptCopies;
  readonly touchedKeys: TouchedKeys;
  /** As it was when the copy began. */
  readonly target: TargetTable;
  /** Runs an action in a session beside the one that applies. */
  readonly inSession: <T>(action: (client: Client) => Promise<T>, how?: BesideSession) => Promise<T>;
  /** Runs an action in the session that applies: no batch is being applied. */
  readonly inTurn: <T>(action: (client: Client) => Promise<T>) => Promise<T>;
  /** Of a table that has no copy yet; null: it has. */
  readonly first: FirstRecord | null;
  /** See `CopyBeside`. */
  readonly takesInTurn: boolean;
  /** Throws unless the sink goes on applying the table's changes, to the table that it was. */
  readonly requireFollowed: () => void;
  /** The run is to end; or the copy, without a failure of its own. */
  readonly stop: AbortSignal;
}

export type FirstOutcome = Omit<CopyOutcome, "rows">;

export interface FirstRecord {
  /** In the open transaction, between two batches: all rows are there that were as of `point`, and as the stream has brought them since. */
  record(client: Client, target: TargetTable, point: Lsn): Promise<FirstOutcome>;
  /** It is durable. */
  made(outcome: FirstOutcome): void;
}

export interface BesideSession {
  /** For the source. */
  readonly isWaiting?: () => boolean;
  /** Also where the copy was told to stop. */
  readonly isLast?: boolean;
}

export class PostgresCopyBeside implements CopyBeside {
  readonly takesAfterPoint = false;
  readonly laysAside = false;
  readonly waitsForOthers = false;
  readonly #pieces: MendPieces;
  /** The latest that rows were taken as of. */
  #point: Lsn = zeroLsn;
  /** Its record may say that it is kept. */
  #mayBeKept: boolean;
  /** What was taken is put into place, or is of no use to another attempt. */
  #isSpent = false;

  constructor(private readonly options: CopyBesideOptions) {
    this.#mayBeKept = options.kept.isKept;
    this.#pieces = new MendPieces(options.takesInTurn);
  }

  get takesInTurn(): boolean {
    return this.options.takesInTurn;
  }

  get form(): TupleForm {
    return this.options.form;
  }

  /** From here on what is taken outlives the run: but for a first copy, which begins anew. */
  async divide(): Promise<HeldRanges> {
    const { inSession, connector, kept, keptCopies, first } = this.options;
    this.#requireUnspoiled();
    if (!this.#mayBeKept && first === null) {
      this.#mayBeKept = true;
      await inSession(async (client) => {
        await client.query("begin");
        await lockForCopy(client, connector);
        await keepBesideTables(client, connector.connectorId, kept.tables, kept.facts);
        await client.query("commit");
      });
      keptCopies.add(kept);
    }
    const { ranges } = kept;
    return { ranges, rows: ranges.reduce((sum, { rows }) => sum + rows, 0) };
  }

  async take(request: CopyRequest): Promise<void> {
    const { inSession, connector, table, kept } = this.options;
    this.#requireUnspoiled();
    if (request.lsn > this.#point) this.#point = request.lsn;
    const { connectorId } = connector;
    const range = request.part?.kind === "range" ? request.part.range : null;
    const columns = sqlList(table.relation.columns.map(({ name }) => name));
    const passing = new PassingChunks(request);
    this.#isSpent ||= range === null;
    const rows = await inSession(
      async (client) => {
        await client.query("begin");
        await lockForCopy(client, connector);
        if (range) await shareBesideTables(client, kept.tables);
        // It went in ranges when it was larger.
        else if (kept.isKept) await emptyBesideTables(client, connectorId, kept.tables);
        const sql = `copy ${sqlName(kept.tables.rows)} (${columns}) from stdin (format ${request.form})`;
        const rows = await copyIn(client, sql, passing.chunks());
        if (range && this.#mayBeKept)
          await recordBesideRange(client, connectorId, kept.tables, { ...range, rows });
        await client.query("commit");
        return rows;
      },
      { isWaiting: () => passing.isWaiting },
    );
    request.progress(rows, passing.bytes);
  }

  async compare(): Promise<void> {
    const { inSession, connector, takesInTurn } = this.options;
    this.#requireUnspoiled();
    // What differs is found with what is written.
    if (takesInTurn) return;
    const comparing = inSession(async (client) => {
      await client.query("begin");
      await lockForCopy(client, connector);
      await this.#pieces.listAll(client, await this.#mending(client));
      await client.query("commit");
    });
    await this.#unlessInVain(comparing);
  }

  async settle(): Promise<SettledPiece> {
    this.#requireUnspoiled();
    return await this.#unlessInVain(this.options.inTurn((client) => this.#settlePiece(client)));
  }

  async #settlePiece(client: Client): Promise<SettledPiece> {
    try {
      await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
      const mending = await this.#mending(client);
      const { first } = this.options;
      const areMore = await this.#pieces.next(client, mending);
      const piece = areMore ? goesOn : await this.#takeOwed(client, mending);
      const isOver = !piece.isMore && piece.owed.length === 0;
      const outcome = isOver ? await first?.record(client, mending.target, this.#point) : undefined;
      await client.query("commit");
      if (outcome) first?.made(outcome);
      return piece;
    } catch (error) {
      await client.query("rollback").catch(() => {});
      if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
      return isHeld;
    }
  }

  /** What is kept waits for the next attempt. What cannot be dropped now is dropped by the next run. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { touchedKeys, inSession, connector, kept, keptCopies, takesInTurn } = this.options;
    const { tables, touched } = kept;
    const { connectorId } = connector;
    const inTransaction = (action: (client: Client) => Promise<void>) => {
      const whole = async (client: Client) => {
        await client.query(`begin; set local lock_timeout = ${takesInTurn ? lockWaitMs : dropWaitMs}`);
        await lockForCopy(client, connector);
        await action(client);
        await client.query("commit");
      };
      return inSession(whole, { isLast: true });
    };
    if (this.#mayBeKept) {
      if (!this.#isSpent && touched.spoiledBy === null) return keptCopies.letGo(kept);
      // Before its keys are noted no more: a run that found it kept would miss them.
      const isForgotten = await inTransaction((client) =>
        forgetBesideTables(client, connectorId, tables.name),
      )
        .then(() => true)
        .catch(() => false);
      if (!isForgotten) {
        touched.spoiledBy ??= "was copied";
        return keptCopies.letGo(kept);
      }
      keptCopies.ended(kept);
    }
    touchedKeys.end(touched);
    await inTransaction((client) => dropBesideTables(client, connectorId, tables)).catch(() => {});
  }

  /** Where it fails of what stays as it is, another attempt is to begin anew. */
  async #unlessInVain<T>(work: Promise<T>): Promise<T> {
    const { stop, connector } = this.options;
    try {
      return await work;
    } catch (error) {
      const { code, retry } = toMillraceError(error);
      const isCut = stop.aborted || connector.signal.aborted;
      if (!isCut && (retry !== "transient" || code === "table_changed")) this.#isSpent = true;
      throw error;
    }
  }

  /** What is told as owed is told to nobody else. */
  async #takeOwed(client: Client, mending: Mending): Promise<SettledPiece> {
    const { connector, kept } = this.options;
    const { owed, isMore } = await takeOwed(client, mending);
    this.#isSpent ||= owed.length > 0 || !isMore;
    if (this.#isSpent) await forgetBesideTables(client, connector.connectorId, kept.tables.name);
    return { isHeld: false, owed, isMore };
  }

  async #mending(client: Client): Promise<Mending> {
    const { table, kept, mode, target: before } = this.options;
    const { relation } = table;
    const target = await readTargetTable(client, before.target);
    if (target === null || targetFacts(target) !== kept.facts.target)
      throw besideSpoiled(relation, "was altered at the sink");
    return { tables: kept.tables, target, relation, replaces: mode === "replace" };
  }

  #requireUnspoiled(): void {
    const { kept, table, requireFollowed } = this.options;
    const { touched } = kept;
    if (touched.spoiledBy !== null) throw besideSpoiled(table.relation, touched.spoiledBy);
    requireFollowed();
  }
}

const goesOn: SettledPiece = { isMore: true, isHeld: false, owed: [] };
const isHeld: SettledPiece = { isMore: true, isHeld: true, owed: [] };

/** What a copy relies on of its table at the sink. */
export function targetFacts({ oid, columns, uniqueKeys, isReferred, refersTo }: TargetTable): string {
  return JSON.stringify([oid, columns, uniqueKeys, isReferred, refersTo]);
}
