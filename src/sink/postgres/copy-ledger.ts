// Which tables' copies the sink holds, and what each means for the table's changes. The records are in bookkeeping.ts's
// tables; this is what a run knows of them.

import type { Client } from "pg";
import { copyMark, isCopyOf } from "../../change/copy-mark.ts";
import { type Lsn, zeroLsn } from "../../change/lsn.ts";
import { isCopyOfTable, qualifiedName, type Relation, type TableShape } from "../../change/relation.ts";
import { recordCopy, type TableCopyRecord, voidCopies } from "./bookkeeping.ts";
import type { CopyState } from "./prepared-table.ts";

export class CopyLedger {
  readonly #records = new Map<string, TableCopyRecord>();

  constructor(private readonly connectorId: string) {}

  load(records: Iterable<TableCopyRecord>): void {
    this.#records.clear();
    for (const record of records) this.add(record);
  }

  add(record: TableCopyRecord): void {
    this.#records.set(qualifiedName(record), record);
  }

  holds(relation: Relation): boolean {
    return (this.#records.get(qualifiedName(relation))?.point ?? zeroLsn) > zeroLsn;
  }

  /** There are rows of a copy since which changes were missed: the source may have deleted some of them. */
  isVoid(relation: Relation): boolean {
    return this.#records.get(qualifiedName(relation))?.point === zeroLsn;
  }

  stateOf(relation: Relation): CopyState {
    const record = this.#records.get(qualifiedName(relation));
    // A change from before the point is in the copy, in whatever shape the table was then.
    if (!record || record.point === zeroLsn || !isCopyOfTable(record.identity, relation)) {
      return { kind: "none" };
    }
    return { kind: record.isMerged ? "merged" : "exact", point: record.point };
  }

  /** Copies that no longer count: their tables are not among `tables`, are others by now, or are gone at the sink. */
  outdated(tables: readonly TableShape[], isThere: (relation: Relation) => boolean): TableCopyRecord[] {
    const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
    return [...this.#records.values()].filter((record) => {
      const table = byName.get(qualifiedName(record));
      return (
        record.point > zeroLsn && !(table && isCopyOf(record.identity, table) && isThere(table.relation))
      );
    });
  }

  /** Notes what the copies that count are copies of from here on: the selection may have changed. Durable as `void` is. */
  async remark(client: Client, tables: readonly TableShape[]): Promise<void> {
    for (const table of tables) {
      const record = this.#records.get(qualifiedName(table.relation));
      const identity = copyMark(table);
      if (!record || record.point === zeroLsn || record.identity === identity) continue;
      await recordCopy(client, this.connectorId, { ...record, identity });
      this.add({ ...record, identity });
    }
  }

  /** Durable on return, unless a transaction is open. */
  async void(client: Client, records: readonly TableCopyRecord[]): Promise<void> {
    if (records.length === 0) return;
    await voidCopies(client, this.connectorId, records);
    this.voidKnown(records);
  }

  async voidOf(client: Client, relation: Relation): Promise<void> {
    const record = this.#records.get(qualifiedName(relation));
    if (record) await this.void(client, [record]);
  }

  voidKnown(records: Iterable<TableCopyRecord> = [...this.#records.values()]): void {
    for (const record of records) this.add({ ...record, point: zeroLsn });
  }
}

/** What is recorded of a copy of `table`. */
export function copyRecord(table: TableShape, point: Lsn, isMerged: boolean): TableCopyRecord {
  const { schema, name } = table.relation;
  return { schema, name, identity: copyMark(table), point, isMerged };
}
