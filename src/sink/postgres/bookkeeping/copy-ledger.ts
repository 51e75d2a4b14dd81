// Which tables' copies the sink holds, and what each means for the table's changes. The records are in bookkeeping.ts's
// tables; this is what a run knows of them.

import type { Client } from "pg";
import { copyMark, isCopyOf } from "../../../change/copy-mark.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { isCopyOfTable, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import type { CopyState } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { recordCopy, renameCopy, type TableCopyRecord, voidCopies } from "./bookkeeping.ts";

type Name = Pick<Relation, "schema" | "name">;

export class CopyLedger {
  readonly #byName = new Map<string, TableCopyRecord>();

  constructor(
    private readonly connectorId: string,
    private readonly naming: TargetNaming,
    private readonly undo: UndoLog,
  ) {}

  load(records: Iterable<TableCopyRecord>): void {
    this.#byName.clear();
    for (const record of records) this.add(record);
  }

  add(record: TableCopyRecord): void {
    this.#byName.set(qualifiedName(record), record);
  }

  holds(relation: Relation): boolean {
    return this.#of(relation) !== null;
  }

  /** Under this name there are rows of a copy since which changes were missed: the source may have deleted some of them. */
  isVoid(name: Name): boolean {
    const record = this.#byName.get(qualifiedName(name));
    if (record?.point !== zeroLsn) return false;
    return record.targets.length === 0 || record.targets.includes(this.#target(name));
  }

  /** Whether its last copy was to another table of the sink: names are made in another way by now. */
  isElsewhere(name: Name): boolean {
    const record = this.#byName.get(qualifiedName(name));
    return record !== undefined && !this.#isHere(record);
  }

  /** For the record of a copy that is made now. */
  targetsWith(name: Name): readonly string[] {
    const target = this.#target(name);
    const before = this.#byName.get(qualifiedName(name))?.targets ?? [];
    return [...before.filter((other) => other !== target), target];
  }

  /**
   * The rows under the table's name are another's, which has it by now: what still comes of the table itself is not for them. It
   * was dropped, or is still to be copied.
   */
  isReplaced(relation: Relation): boolean {
    const named = this.#byName.get(qualifiedName(relation));
    const isOthers = named !== undefined && named.point > zeroLsn && tableIdOf(named) !== relation.id;
    return isOthers && !this.holds(relation);
  }

  /** Of the copy that counts for the table; null: there is none. */
  pointOf(tableId: number): Lsn | null {
    return this.#byName.values().find((record) => countsFor(record, tableId))?.point ?? null;
  }

  stateOf(relation: Relation): CopyState {
    const record = this.#of(relation);
    // A change from before the point is in the copy, in whatever shape the table was then.
    if (!record || !isCopyOfTable(record.identity, relation)) return { kind: "none" };
    const { point, first } = record;
    return record.isMerged ? { kind: "merged", point, first } : { kind: "exact", point };
  }

  /**
   * Copies that no longer count: their tables are not among `tables`, are others by now, are gone at the sink, or are to be written to
   * another table there.
   */
  outdated(tables: readonly TableShape[], isThere: (relation: Relation) => boolean): TableCopyRecord[] {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    return [...this.#byName.values()].filter((record) => {
      const table = byId.get(tableIdOf(record));
      const counts = table && isCopyOf(record.identity, table) && isThere(table.relation);
      return record.point > zeroLsn && !(counts && this.#isHere(record));
    });
  }

  /** Notes what the copies that count are copies of from here on: the selection may have changed. Durable as `void` is. */
  async remark(client: Client, tables: readonly TableShape[]): Promise<void> {
    for (const table of tables) {
      const record = this.#of(table.relation);
      const identity = copyMark(table);
      if (!record || record.identity === identity) continue;
      await recordCopy(client, this.connectorId, { ...record, identity });
      this.add({ ...record, identity });
    }
  }

  /** Copies that count, and are in one of these tables of the sink. */
  amongTargets(targets: readonly TargetName[]): TableCopyRecord[] {
    if (targets.length === 0) return [];
    const names = new Set(targets.map((target) => qualifiedName(target)));
    return [...this.#byName.values()].filter(
      (record) => record.point > zeroLsn && names.has(this.#target(record)),
    );
  }

  /** The table that is called `from` at the sink is called `to` by now. Durable with the transaction that is open. */
  async rename(client: Client, from: Name, to: Name): Promise<void> {
    const record = this.#byName.get(qualifiedName(from));
    if (!record) return;
    const targets = [...record.targets.slice(0, -1), this.#target(to)];
    await renameCopy(client, this.connectorId, record, { ...to, targets });
    const there = this.#byName.get(qualifiedName(to));
    this.undo.changed(() => {
      this.#byName.delete(qualifiedName(to));
      for (const before of [there, record]) if (before) this.add(before);
    });
    this.#byName.delete(qualifiedName(from));
    this.add({ ...record, schema: to.schema, name: to.name, targets });
  }

  /** Durable on return, unless a transaction is open. */
  async void(client: Client, records: readonly TableCopyRecord[]): Promise<void> {
    if (records.length === 0) return;
    await voidCopies(client, this.connectorId, records);
    this.voidKnown(records);
  }

  async voidOf(client: Client, relation: Relation): Promise<void> {
    const record = this.#of(relation);
    if (record) await this.void(client, [record]);
  }

  /** As `voidOf`, of rows that are at the sink without a copy. */
  async voidUncopied(client: Client, { id, schema, name }: Relation): Promise<void> {
    if (this.#byName.has(qualifiedName({ schema, name }))) return;
    const targets = [this.#target({ schema, name })];
    const none = { point: zeroLsn, isMerged: false, first: null, targets };
    const record = { schema, name, identity: String(id), ...none };
    await recordCopy(client, this.connectorId, record);
    this.add(record);
  }

  /** As `voidOf`, of the copy that counts for the table with this OID. */
  async voidById(client: Client, tableId: number): Promise<void> {
    await this.void(
      client,
      [...this.#byName.values()].filter((record) => countsFor(record, tableId)),
    );
  }

  voidKnown(records: Iterable<TableCopyRecord> = [...this.#byName.values()]): void {
    for (const record of records) this.add({ ...record, point: zeroLsn });
  }

  #target(name: Name): string {
    return qualifiedName(this.naming.target(name));
  }

  #isHere(record: TableCopyRecord): boolean {
    return record.targets.length === 0 || record.targets.at(-1) === this.#target(record);
  }

  /** The copy that counts for the table, also when it is held under a name that the table had before. */
  #of(relation: Relation): TableCopyRecord | null {
    const own = this.#byName.get(qualifiedName(relation));
    if (own && countsFor(own, relation.id)) return own;
    return this.#byName.values().find((record) => countsFor(record, relation.id)) ?? null;
  }
}

function countsFor(record: TableCopyRecord, tableId: number): boolean {
  return record.point > zeroLsn && tableIdOf(record) === tableId;
}

/** A copy's identity begins with it; see `copyIdentity`. */
function tableIdOf({ identity }: TableCopyRecord): number {
  return Number.parseInt(identity, 10);
}

/** What is recorded of a copy of `table`. */
export function copyRecord(
  table: TableShape,
  made: Pick<TableCopyRecord, "point" | "isMerged" | "first" | "targets">,
): TableCopyRecord {
  const { schema, name } = table.relation;
  return { schema, name, identity: copyMark(table), ...made };
}
