// What a run knows of the tables' copies: which are valid, and which changes each copy includes. bookkeeping.ts stores the records.

import type { Client } from "pg";
import { copyFingerprint, isCopyOf } from "../../../change/copy-fingerprint.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import {
  isCopyOfTable,
  qualifiedName,
  type Relation,
  type TableShape,
  withVoidCopy,
} from "../../../change/relation.ts";
import { type CopyState, outOfDate } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { recordCopy, recordProof, renameCopy, type TableCopyRecord, voidCopies } from "./bookkeeping.ts";

type Name = Pick<Relation, "schema" | "name">;

export class CopyLedger {
  readonly #byName = new Map<string, TableCopyRecord>();
  /** The names of a table's records, by its OID. */
  readonly #names = new Map<number, Set<string>>();

  constructor(
    private readonly connectorId: string,
    private readonly naming: TargetNaming,
    private readonly undo: UndoLog,
  ) {}

  load(records: Iterable<TableCopyRecord>): void {
    this.#byName.clear();
    this.#names.clear();
    for (const record of records) this.add(record);
  }

  add(record: TableCopyRecord): void {
    const name = qualifiedName(record);
    this.#nameless(name);
    this.#byName.set(name, record);
    this.#names.getOrInsertComputed(tableIdOf(record), () => new Set()).add(name);
  }

  #remove(name: string): void {
    this.#nameless(name);
    this.#byName.delete(name);
  }

  #nameless(name: string): void {
    const before = this.#byName.get(name);
    if (before) this.#names.get(tableIdOf(before))?.delete(name);
  }

  /** The valid copies of the table with this OID. */
  #ofTable(tableId: number): readonly TableCopyRecord[] {
    const records = [...(this.#names.get(tableId) ?? [])].map((name) => this.#byName.get(name)!);
    return records.filter((record) => record.point > zeroLsn);
  }

  holds(relation: Relation): boolean {
    return this.recordOf(relation) !== null;
  }

  /** Whether the target of this name has rows of a void copy: the source may have deleted some of them. */
  isVoid(name: Name): boolean {
    const record = this.#byName.get(qualifiedName(name));
    if (record?.point !== zeroLsn) return false;
    return record.targets.length === 0 || record.targets.includes(this.#target(name));
  }

  /** The table, marked where its copy is void: without copies nothing else tells of it. */
  withVoid(table: TableShape): TableShape {
    return this.isVoid(table.relation) ? withVoidCopy(table) : table;
  }

  /** Whether its last copy went to another target: the naming was changed since. */
  isElsewhere(name: Name): boolean {
    const record = this.#byName.get(qualifiedName(name));
    return record !== undefined && !this.#isHere(record);
  }

  /** `TableCopyRecord.targets` of a copy that is made now. */
  targetsWith(name: Name): readonly string[] {
    const target = this.#target(name);
    const before = this.#byName.get(qualifiedName(name))?.targets ?? [];
    return [...before.filter((other) => other !== target), target];
  }

  /**
   * Whether another table has the relation's name by now, and the rows at the sink are that table's. The relation's own table was dropped, or is
   * still to be copied: its changes must not reach those rows.
   */
  isReplaced(relation: Relation): boolean {
    const named = this.#byName.get(qualifiedName(relation));
    const isOthers = named !== undefined && named.point > zeroLsn && tableIdOf(named) !== relation.id;
    return isOthers && !this.holds(relation);
  }

  /** Whether the table's valid copy has missed changes, and is still to be compared with the source. */
  isUnproved(relation: Relation): boolean {
    return this.recordOf(relation)?.isUnproved === true;
  }

  /** As `isUnproved`, by the table's OID. */
  isUnprovedById(tableId: number): boolean {
    return this.#ofTable(tableId).some(({ isUnproved }) => isUnproved);
  }

  /** The OIDs of the tables among these that are unproved. */
  unprovedAmong(tables: readonly TableShape[]): ReadonlySet<number> {
    return new Set(
      tables.map(({ relation }) => relation).flatMap((each) => (this.isUnproved(each) ? [each.id] : [])),
    );
  }

  /** The unproved table's rows equal the source's. Durable with the open transaction. */
  async proved(client: Client, relation: Relation): Promise<void> {
    const record = this.recordOf(relation);
    if (record === null || !record.isUnproved) return;
    await recordProof(client, this.connectorId, record);
    this.undo.changed(() => this.add(record));
    this.add({ ...record, isUnproved: false });
  }

  /** The point of the table's valid copy; null: there is none. */
  pointOf(tableId: number): Lsn | null {
    return this.#ofTable(tableId)[0]?.point ?? null;
  }

  stateOf(relation: Relation): CopyState {
    const record = this.recordOf(relation);
    // A valid copy includes a change from before its point, whatever the table's shape was then.
    if (!record || !isCopyOfTable(record.identity, relation)) return { kind: "none" };
    const { point, first } = record;
    if (record.isUnproved) return outOfDate;
    return record.isMerged ? { kind: "merged", point, first } : { kind: "exact", point };
  }

  /** Copies that are no longer valid: the table is not among `tables`, is another table by now, or has no target or another one. */
  outdated(tables: readonly TableShape[], isThere: (relation: Relation) => boolean): TableCopyRecord[] {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    return [...this.#byName.values()].filter((record) => {
      const table = byId.get(tableIdOf(record));
      const counts = table && isCopyOf(record.identity, table) && isThere(table.relation);
      return record.point > zeroLsn && !(counts && this.#isHere(record));
    });
  }

  /** Updates the identities of valid copies, as the selection may have changed. Durable as `void` is. */
  async updateIdentities(client: Client, tables: readonly TableShape[]): Promise<void> {
    for (const table of tables) {
      const record = this.recordOf(table.relation);
      const identity = copyFingerprint(table);
      if (!record || record.identity === identity) continue;
      await recordCopy(client, this.connectorId, { ...record, identity }, true);
      this.add({ ...record, identity });
    }
  }

  /** Valid copies in these targets. */
  amongTargets(targets: readonly TargetName[]): TableCopyRecord[] {
    if (targets.length === 0) return [];
    const names = new Set(targets.map((target) => qualifiedName(target)));
    return [...this.#byName.values()].filter(
      (record) => record.point > zeroLsn && names.has(this.#target(record)),
    );
  }

  /** The table `from` was renamed to `to`. Durable with the open transaction. */
  async rename(client: Client, from: Name, to: Name): Promise<void> {
    const record = this.#byName.get(qualifiedName(from));
    if (!record) return;
    const targets = [...record.targets.slice(0, -1), this.#target(to)];
    await renameCopy(client, this.connectorId, record, { ...to, targets });
    const there = this.#byName.get(qualifiedName(to));
    this.undo.changed(() => {
      this.#remove(qualifiedName(to));
      for (const before of [there, record]) if (before) this.add(before);
    });
    this.#remove(qualifiedName(from));
    this.add({ ...record, schema: to.schema, name: to.name, targets });
  }

  /** Marks copies void: changes were missed since. Durable on return, unless a transaction is open. */
  async void(client: Client, records: readonly TableCopyRecord[]): Promise<void> {
    if (records.length === 0) return;
    await voidCopies(client, this.connectorId, records);
    this.voidKnown(records);
  }

  async voidOf(client: Client, relation: Relation): Promise<void> {
    const record = this.recordOf(relation);
    if (record) await this.void(client, [record]);
  }

  /** As `voidOf`, for a table whose rows are at the sink without a copy. */
  async voidUncopied(client: Client, { id, schema, name }: Relation): Promise<void> {
    if (this.#byName.has(qualifiedName({ schema, name }))) return;
    const targets = [this.#target({ schema, name })];
    const none = { point: zeroLsn, isMerged: false, first: null, targets, isUnproved: false };
    const record = { schema, name, identity: String(id), ...none };
    await recordCopy(client, this.connectorId, record);
    this.add(record);
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

  /** The table's valid copy, which may be recorded under an earlier name of the table; null: there is none. */
  recordOf(relation: Relation): TableCopyRecord | null {
    const own = this.#byName.get(qualifiedName(relation));
    if (own && countsFor(own, relation.id)) return own;
    return this.#ofTable(relation.id)[0] ?? null;
  }
}

function countsFor(record: TableCopyRecord, tableId: number): boolean {
  return record.point > zeroLsn && tableIdOf(record) === tableId;
}

/** A copy's identity begins with the OID; see `copyFingerprint`. */
function tableIdOf({ identity }: TableCopyRecord): number {
  return Number.parseInt(identity, 10);
}

/** The record of a copy of `table`. */
export function copyRecord(
  table: TableShape,
  made: Omit<TableCopyRecord, "schema" | "name" | "identity">,
): TableCopyRecord {
  const { schema, name } = table.relation;
  return { schema, name, identity: copyFingerprint(table), ...made };
}
