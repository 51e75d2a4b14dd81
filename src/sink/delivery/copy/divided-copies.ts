// Copies that are made in ranges of their tables' pages: what is delivered of them, and which rows are in none of the ranges. A row
// that moves from a range that is still to be copied into one that has been comes with the stream alone, and not with what is stored
// out of line: its key is noted, and it is copied by itself. Kept in the sink's record.

import { copyMark } from "../../../change/copy-mark.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import { dividedMark } from "../../../change/divided-mark.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { isIdentified, qualifiedName, type TableShape } from "../../../change/relation.ts";
import { keptForTaskMs } from "../../../connector/task-state.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { keyTexts } from "../../format/row-identity.ts";
import type { OwedKeysOf } from "../line/line-messages.ts";
import {
  begunCopy,
  type DividedCopy,
  type DividedTables,
  isMixed,
  withRange,
} from "../record/divided-copy.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import type { CopiedTables } from "../record/recorded-tables.ts";
import { holdsCopy } from "../record/sink-record.ts";
import type { ChangedRow, ChangeWatch, OperationFilter } from "../stream/change-rows.ts";
import type { CopyOrigin } from "./copy-rows.ts";

/** Of one table, that are asked for at once. */
const maxKeys = 10_000;

export class DividedCopies implements ChangeWatch {
  /** What is due was told of. */
  #isTold = false;
  /** Tables that are being copied again, and since when others wait for that. */
  readonly #busy = new Set<string>();
  readonly #waitingMs = new Map<string, number>();

  constructor(
    private readonly keeper: RecordKeeper,
    private readonly filter: OperationFilter,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {}

  /** Begins a copy, or goes on with the ranges that are delivered. Null: the table is to be copied whole. */
  begin(table: TableShape, goesOn: boolean): Pick<DividedCopy, "ranges" | "inHand" | "rows"> | null {
    const name = qualifiedName(table.relation);
    const mark = markOf(table);
    const known = this.#of(name);
    const isRefused = known?.phase === "refused" && known.mark === mark;
    if (isRefused || !this.#isDivisible(table)) return null;
    const isAny = known && known.ranges.length + known.inHand.length > 0;
    const isKept = goesOn && isAny && known.phase === "open" && known.mark === mark;
    const copy = isKept ? known : begunCopy(mark);
    this.#put(name, copy);
    return { ranges: copy.ranges, inHand: copy.inHand, rows: copy.rows };
  }

  /** As `begin`, of a first copy that is made beside the stream: what that brings in part is noted from here on. */
  beginBeside(table: TableShape): Pick<DividedCopy, "ranges" | "rows"> | null {
    const begun = this.begin(table, true);
    const name = qualifiedName(table.relation);
    const copy = this.#of(name);
    if (begun && copy && !copy.points) {
      this.#put(name, { ...copy, points: { first: zeroLsn, last: zeroLsn } });
    }
    return begun;
  }

  /**
   * As `beginBeside`, of a table that has been copied before. Null: nothing is recorded of it. `letGo` is to be called when nobody is at
   * it any more.
   */
  beginAgain(table: TableShape): Pick<DividedCopy, "ranges" | "rows"> | null {
    const name = qualifiedName(table.relation);
    const mark = markOf(table);
    const known = this.#of(name);
    // What is owed of the copy before is still to come.
    if (!this.#isDivisible(table) || (known && known.phase !== "again")) return null;
    const points = { first: zeroLsn, last: zeroLsn };
    const copy = known?.mark === mark ? known : { ...begunCopy(mark, "again"), points };
    this.#put(name, copy);
    this.#busy.add(name);
    return { ranges: copy.ranges, rows: copy.rows };
  }

  letGo(name: string): void {
    this.#busy.delete(name);
    this.#waitingMs.delete(name);
  }

  /** Ranges as of points in another log. */
  forgetBegun(): void {
    for (const [name, { phase }] of this.keeper.record.divided)
      if (phase === "open" || phase === "again") this.forget(name);
  }

  /** A copy of the table is on its way, and all that is owed of it is noted. */
  isOpen(table: TableShape, phase: "open" | "again"): boolean {
    const copy = this.#of(qualifiedName(table.relation));
    return copy?.phase === phase && copy.mark === markOf(table);
  }

  owedOf(name: string): readonly RowKey[] {
    return this.#of(name)?.owed.list() ?? [];
  }

  originOf(name: string): CopyOrigin | null {
    return this.#of(name)?.origin ?? null;
  }

  begins(name: string, origin: CopyOrigin): void {
    const copy = this.#of(name);
    if (copy) this.#put(name, { ...copy, origin });
  }

  /** A range begins. False: it had begun before. */
  takesUp(name: string, range: PageRange): boolean {
    const copy = this.#of(name);
    if (copy?.phase !== "open" || copy.inHand.some((each) => isSame(each, range))) return false;
    this.#put(name, { ...copy, inHand: [...copy.inHand, range] });
    return true;
  }

  /** All rows of the range are delivered. */
  add(name: string, range: PageRange, point: Lsn, rows: number): void {
    const copy = this.#of(name);
    if (copy?.phase === "open" || copy?.phase === "again")
      this.#put(name, withRange(copy, range, point, rows));
  }

  /** All ranges are delivered: the table is copied. */
  join(table: TableShape): void {
    const name = qualifiedName(table.relation);
    const copy = this.#of(name);
    const { record } = this.keeper;
    const lsn = copy?.points?.last ?? record.checkpoint.resumeLsn;
    this.keeper.change({ copied: new Map(record.copied).set(name, { identity: copyMark(table), lsn }) });
    if (copy && isMixed(copy)) this.#put(name, { ...copy, phase: "joined", ranges: [] });
    else this.forget(name);
  }

  /** The table is copied, as of points up to `last` or those that are recorded, and nothing is owed of it. */
  made(table: TableShape, last: Lsn): void {
    const name = qualifiedName(table.relation);
    const { copied, checkpoint } = this.keeper.record;
    const known = this.#of(name)?.points?.last ?? zeroLsn;
    const lsn = [last, known].find((point) => point > zeroLsn) ?? checkpoint.resumeLsn;
    this.keeper.change({ copied: new Map(copied).set(name, { identity: copyMark(table), lsn }) });
    this.forget(name);
  }

  /** The table is copied whole, or its copy begins anew. */
  forget(name: string): void {
    const { divided } = this.keeper.record;
    if (!divided.has(name)) return;
    this.keeper.change({ divided: new Map([...divided].filter(([each]) => each !== name)) });
  }

  /** These rows are delivered as they are by now. */
  brought(name: string, keys: readonly RowKey[]): void {
    for (const key of keys) this.#of(name)?.owed.delete(key);
  }

  watches({ name }: CompiledTable): boolean {
    return this.keeper.record.divided.size > 0 && this.#of(name)?.points != null;
  }

  /** Notes a row of which the stream does not bring all values, where it may be in none of the ranges. */
  see({ table, arena, after, commitLsn }: ChangedRow): void {
    const copy = this.#of(table.name);
    if (!copy?.points || copy.phase === "refused" || commitLsn < copy.points.first) return;
    if (copy.phase === "joined" && commitLsn >= copy.points.last) return;
    if (!after.isPartial) return;
    const key = keyTexts(arena, after, table.relation.key);
    if (key) copy.owed.add(key);
    if (!key || copy.owed.isTooMany) this.#refuse(table.name, copy);
  }

  /** Whether rows are due, or a table is to be copied again, and nobody has been told. `at`: what the stream has brought. */
  takeDue(at: Lsn): boolean {
    if (this.keeper.record.divided.size === 0) return false;
    this.#sweep(at);
    if (this.#isTold || !this.#isAnyDue(at)) return false;
    this.#isTold = true;
    return true;
  }

  /** The place that the stream has to come to before all that is owed is due; null: it is there. */
  awaited(at: Lsn): Lsn | null {
    let awaited: Lsn | null = null;
    for (const { phase, points, owed } of this.keeper.record.divided.values()) {
      if (phase !== "joined" || points === null || owed.isEmpty) continue;
      if (points.last > (awaited ?? at)) awaited = points.last;
    }
    return awaited;
  }

  /** What is to be copied now, before the stream goes on. */
  due(at: Lsn): readonly OwedKeysOf[] {
    this.#isTold = false;
    return [...this.keeper.record.divided]
      .filter(([, copy]) => isDue(copy, at))
      .map(([name, { owed }]) => ({ name, keys: owed.list().slice(0, maxKeys) }));
  }

  /** Without updates in the stream nothing would bring a row that has moved. */
  #isDivisible({ relation, isPartitioned }: TableShape): boolean {
    const { key, replicaIdentity, isKeyedByHash } = relation;
    const isKeyed = key.length > 0 && replicaIdentity !== "index" && isKeyedByHash !== true;
    const sendsAll = this.filter.sends("read") && this.filter.sends("update");
    return isKeyed && isIdentified(relation) && !isPartitioned && sendsAll;
  }

  #isAnyDue(at: Lsn): boolean {
    const { divided, copied } = this.keeper.record;
    const isToBeMadeAgain = (name: string, { phase }: DividedCopy) =>
      phase === "refused" && copied.get(name)?.lsn === zeroLsn;
    return [...divided].some(([name, copy]) => isDue(copy, at) || isToBeMadeAgain(name, copy));
  }

  /** What is owed is more than can be noted: the copy counts as none. */
  #refuse(name: string, copy: DividedCopy): void {
    // Whoever makes it notes it in memory, or begins anew.
    if (copy.phase === "again") {
      this.forget(name);
      return;
    }
    const { copied } = this.keeper.record;
    const made = copied.get(name);
    if (made) this.keeper.change({ copied: new Map(copied).set(name, { ...made, lsn: zeroLsn }) });
    this.#put(name, { ...begunCopy(copy.mark), phase: "refused" });
  }

  #sweep(at: Lsn): void {
    for (const [name, { phase, points, owed }] of this.keeper.record.divided) {
      if (phase === "again" && this.#isOverdue(name)) this.forget(name);
      if (phase === "joined" && owed.isEmpty && points !== null && at >= points.last) this.forget(name);
    }
  }

  #isOverdue(name: string): boolean {
    if (this.#busy.has(name)) return false;
    const sinceMs = this.#waitingMs.get(name) ?? this.nowMs();
    this.#waitingMs.set(name, sinceMs);
    return this.nowMs() - sinceMs >= keptForTaskMs;
  }

  #of(name: string): DividedCopy | undefined {
    return this.keeper.record.divided.get(name);
  }

  #put(name: string, copy: DividedCopy): void {
    this.keeper.change({ divided: new Map(this.keeper.record.divided).set(name, copy) });
  }
}

function isSame(one: PageRange, other: PageRange): boolean {
  return one.from === other.from && one.to === other.to;
}

function isDue({ phase, points, owed }: DividedCopy, at: Lsn): boolean {
  if (phase !== "joined" || points === null || owed.isEmpty) return false;
  return at >= points.last || owed.isAmple;
}

function markOf(table: TableShape): string {
  return Bun.SHA256.hash(dividedMark(table), "hex");
}

/**
 * `divided` as it stands for `tables`: a copy counts no more when its table is no longer selected, or another one by now, or has
 * missed changes. Itself when nothing changes.
 */
export function dividedOf(
  divided: DividedTables,
  copied: CopiedTables,
  tables: readonly TableShape[],
): DividedTables {
  const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
  const isKept = (name: string, { phase, mark }: DividedCopy) => {
    const table = byName.get(name);
    if (!table || table.coverage?.isUnpublished === true) return false;
    const isCopied = holdsCopy(copied, name);
    if (phase === "again") return isCopied && mark === markOf(table);
    return phase === "joined" ? isCopied : mark === markOf(table);
  };
  const kept = [...divided].filter(([name, copy]) => isKept(name, copy));
  return kept.length === divided.size ? divided : new Map(kept);
}
