// Where each of a run's tables stands, and how many changes the stream has brought of it. It hears that from those who know, and reports it once
// a second: at first all tables, at once, then those that are not as they were reported last.

import type { ChangeBatch } from "../change/change-batch.ts";
import { qualifiedName, type TableShape } from "../change/relation.ts";
import { sharedInterval } from "../measure/shared-interval.ts";
import type { CopyPhase } from "../sink/copy-sink.ts";
import type { SetAsideTable, UnreadableTable } from "../sink/sink-events.ts";
import type { ExcludedTable } from "../source/source.ts";
import { ChangeCounter } from "./change-counts.ts";
import { CountedChanges } from "./counted-changes.ts";

const reportEveryMs = 1_000;

interface CopyFigures {
  readonly rows: number;
  readonly bytes: number;
  /** Left out while rows are read. `rowsWritten`: null where nobody knows. */
  readonly phase?: { readonly name: CopyPhase; readonly rowsWritten: number | null };
}

interface Comparison {
  readonly rows: number | null;
  readonly failure: string | null;
}

const mayDiffer =
  "The slot was lost, and changes were missed: until this table is compared with the source, some of its rows may be out of date.";

/** As connector/table-status.ts describes them. */
export type TableState =
  | "Waiting"
  | "Copying"
  | "Resuming"
  | "Streaming"
  | "SetAside"
  | "Unreadable"
  | "Excluded";

export interface TableReport {
  /** The table's OID: a rename keeps it. */
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly state: TableState;
  /** Null: the state says all. */
  readonly reason: string | null;
  /** SQL to run at the sink, each statement without a semicolon. */
  readonly commands: readonly string[];
  /** See `SetAsideTable`. */
  readonly isCopiedAgain?: boolean;
  /** Null: it is not being copied. */
  readonly copy: (CopyFigures & { readonly estimatedRows: number }) | null;
  /** How many rows were compared with the source; left out: none is being compared. */
  readonly compared?: { readonly rows: number; readonly estimatedRows: number };
  /** Since the attempt began, without what earlier attempts of the run have counted. */
  readonly rowsIn: number;
  /** Commit time of the last change, in milliseconds since 1970; null: not known. */
  readonly lastChangeMs: number | null;
  /** The sink keeps its superseded rows. */
  readonly history: boolean;
}

export interface TablesReport {
  /** These are all tables. Otherwise they are those that have changed. */
  readonly isFirst: boolean;
  readonly tables: readonly TableReport[];
  /** OIDs of tables that are gone. */
  readonly gone: readonly number[];
}

/** What `sink.prepare` was given and has said. */
export interface PreparedStates {
  readonly tables: readonly TableShape[];
  readonly excluded: readonly ExcludedTable[];
  /** Tables that are to be copied. */
  readonly missing: readonly TableShape[];
  readonly unreadable: readonly UnreadableTable[];
  /** OIDs of tables whose superseded rows the sink keeps. */
  readonly withHistory?: ReadonlySet<number>;
  /** OIDs of tables that are to be compared with the source. */
  readonly unproved?: ReadonlySet<number>;
}

/** Who copies tables tells how far each copy has come. */
export type CopyStates = Pick<TableStates, "expects" | "began" | "copying" | "inPhase" | "copied" | "gaveUp">;

type Known = Pick<TableReport, "schema" | "name"> & {
  readonly estimatedRows: number;
  /** Why the connector does not take it; null: it does. */
  readonly excluded: string | null;
  readonly history: boolean;
};

export class TableStates implements Disposable {
  #known: ReadonlyMap<number, Known> = new Map();
  #missing = new Set<number>();
  #unreadable = new Map<number, string>();
  #setAside: ReadonlyMap<string, SetAsideTable> = new Map();
  #unproved = new Set<number>();
  readonly #comparing = new Map<number, Comparison>();
  /** Their copies are expected, and have not begun. */
  readonly #expected = new Set<number>();
  readonly #copying = new Map<number, CopyFigures>();
  readonly #counts = new ChangeCounter();
  /** What was reported last. */
  readonly #reported = new Map<number, TableReport>();
  /** OIDs of tables that may have changed since; null: any may have. */
  #changed: Set<number> | null = new Set();
  /** The source's tables are known. */
  #isRead = false;
  #isFirst = true;
  readonly #reporting: Disposable;

  constructor(
    private readonly report: (report: TablesReport) => void,
    private readonly counted = new CountedChanges(),
  ) {
    this.#reporting = sharedInterval(reportEveryMs, () => this.flush());
  }

  /** The connector begins: none of the tables has a copy. */
  allWait(tables: readonly TableShape[], excluded: readonly ExcludedTable[]): void {
    this.prepared({ tables, excluded, missing: tables, unreadable: [] });
  }

  /** The source's tables as they are now. Those that are gone are forgotten. */
  prepared({ tables, excluded, missing, unreadable, withHistory, unproved }: PreparedStates): void {
    this.#unproved = new Set(unproved);
    this.#known = knownTables(tables, excluded, withHistory ?? new Set());
    this.#missing = new Set(missing.map(({ relation }) => relation.id));
    this.#unreadable = new Map(unreadable.map(({ table, reason }) => [table.relation.id, reason]));
    this.#changed = null;
    this.#isRead = true;
    // Until then people see where the tables stood in the run before.
    if (this.#isFirst) this.flush();
  }

  /** The table was compared with the source, and is right. */
  proved({ relation: { id } }: TableShape): void {
    this.#unproved.delete(id);
    this.#touch(id);
    if (this.#unproved.size === 0) this.flush();
  }

  /** All the tables that are set aside now. */
  setAside(tables: readonly SetAsideTable[]): void {
    this.#setAside = new Map(tables.map((table) => [qualifiedName(table), table]));
    this.#changed = null;
  }

  /** A copy of the table begins when its turn comes. */
  expects({ relation: { id } }: TableShape): void {
    this.#expected.add(id);
    this.#touch(id);
  }

  /** A copy of the table has begun. It ends with `copied` or `gaveUp`. */
  began(table: TableShape): void {
    this.copying(table, 0, 0);
  }

  copying({ relation: { id } }: TableShape, rows: number, bytes: number): void {
    const { phase } = this.#copying.get(id) ?? {};
    this.#copying.set(id, {
      rows,
      bytes, // A copy that begins anew has none.
      ...(phase && rows > 0 && { phase }),
    });
    this.#touch(id);
  }

  /** All rows of the copy are read. */
  inPhase({ relation: { id } }: TableShape, name: CopyPhase, rowsWritten: number | null): void {
    const figures = this.#copying.get(id);
    if (!figures) return;
    this.#copying.set(id, { ...figures, phase: { name, rowsWritten } });
    this.#touch(id);
  }

  copied({ relation: { id } }: TableShape): void {
    for (const each of [this.#expected, this.#copying, this.#missing, this.#unreadable]) each.delete(id);
    this.#touch(id);
  }

  /** So many rows of the table were compared with the source; null: the comparison has ended. `failure`: why it is tried again. */
  comparing({ relation: { id } }: TableShape, rows: number | null, failure: string | null = null): void {
    this.#comparing.set(id, { rows, failure });
    this.#touch(id);
  }

  /** `unreadable`: why the source does not let it be read, so that it is tried again; left out: nobody waits for this copy any more. */
  gaveUp({ relation: { id } }: TableShape, unreadable?: string): void {
    this.#expected.delete(id);
    this.#copying.delete(id);
    if (unreadable !== undefined) this.#unreadable.set(id, unreadable);
    this.#touch(id);
  }

  /** Counts a batch of the stream. Returns what of it is new, see `CountedChanges.take`. */
  count(batch: ChangeBatch): number | null {
    const first = this.counted.take(batch);
    this.#counts.count(batch, this.#touch, first);
    return first;
  }

  flush(): void {
    // An idle run costs nothing.
    if (!this.#isRead || this.#changed?.size === 0) return;
    const gone = this.#changed === null ? this.#forgetGone() : [];
    const tables = [...(this.#changed ?? this.#known.keys())].flatMap((id) => this.#news(id) ?? []);
    const isFirst = this.#isFirst;
    this.#changed = new Set();
    this.#isFirst = false;
    if (isFirst || tables.length + gone.length > 0) this.report({ isFirst, tables, gone });
  }

  [Symbol.dispose](): void {
    this.#reporting[Symbol.dispose]();
    this.flush();
  }

  /** Returns the OIDs of tables that were reported, and are not known any more. */
  #forgetGone(): readonly number[] {
    const gone = [...this.#reported.keys()].filter((id) => !this.#known.has(id));
    for (const id of gone) {
      this.#counts.forget(id);
      for (const each of [this.#reported, this.#expected, this.#copying, this.#comparing]) each.delete(id);
    }
    return gone;
  }

  readonly #touch = (id: number): void => {
    this.#changed?.add(id);
  };

  /** Null: it is as it was reported, or not known. */
  #news(id: number): TableReport | null {
    const known = this.#known.get(id);
    if (!known) return null;
    const report = this.#reportOf(id, known);
    if (Bun.deepEquals(report, this.#reported.get(id))) return null;
    this.#reported.set(id, report);
    return report;
  }

  #reportOf(id: number, known: Known): TableReport {
    const { schema, name, estimatedRows } = known;
    const copying = this.#copying.get(id);
    const { changes, lastCommitUs } = this.#counts.of(id);
    return {
      id,
      schema,
      name,
      ...this.#stateOf(id, known),
      copy: copying ? { ...copying, estimatedRows: Math.max(copying.rows, estimatedRows) } : null,
      ...this.#comparedOf(id, estimatedRows),
      rowsIn: changes,
      lastChangeMs: lastCommitUs === 0n ? null : Number(lastCommitUs / 1000n),
      history: known.history,
    };
  }

  #stateOf(id: number, known: Known): Pick<TableReport, "state" | "reason" | "commands" | "isCopiedAgain"> {
    const stands = (state: TableState, reason: string | null = null, commands: readonly string[] = []) => ({
      state,
      reason,
      commands,
    });
    if (known.excluded !== null) return stands("Excluded", known.excluded);
    if (this.#copying.has(id)) return stands("Copying");
    const setAside = this.#setAside.get(qualifiedName(known));
    const unreadable = this.#unreadable.get(id);
    // A table that cannot be read is set aside too. One that needs something at the sink needs that first.
    const again = setAside?.isCopiedAgain ? { isCopiedAgain: true } : {};
    if (unreadable !== undefined && !setAside?.commands.length)
      return { ...stands("Unreadable", setAside?.reason ?? unreadable), ...again };
    if (setAside) return { ...stands("SetAside", setAside.reason, setAside.commands), ...again };
    if (this.#missing.has(id) || this.#expected.has(id)) return stands("Waiting");
    if (!this.#unproved.has(id)) return stands("Streaming");
    const failure = this.#comparing.get(id)?.failure ?? null;
    return stands("Resuming", failure === null ? mayDiffer : `${mayDiffer} It is tried again: ${failure}`);
  }

  #comparedOf(id: number, estimatedRows: number): Pick<TableReport, "compared"> {
    const rows = this.#comparing.get(id)?.rows ?? null;
    if (rows === null || !this.#unproved.has(id)) return {};
    return { compared: { rows, estimatedRows: Math.max(rows, estimatedRows) } };
  }
}

function knownTables(
  tables: readonly TableShape[],
  excluded: readonly ExcludedTable[],
  withHistory: ReadonlySet<number>,
): ReadonlyMap<number, Known> {
  const taken = tables.map(({ relation: { id, schema, name }, estimatedRows }) => {
    return [id, { schema, name, estimatedRows, excluded: null, history: withHistory.has(id) }] as const;
  });
  const others = excluded.map(({ id, schema, name, reason }) => {
    return [id, { schema, name, estimatedRows: 0, excluded: reason, history: false }] as const;
  });
  return new Map<number, Known>([...others, ...taken]);
}
