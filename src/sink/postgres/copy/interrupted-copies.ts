// Incremental copies that an earlier run or attempt did not finish. Their done ranges stay valid while the sink goes on recording the keys
// that the stream touches. A copy that nothing resumes for long is dropped.

import type { Client } from "pg";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { CopyRecords } from "../bookkeeping/copy-records.ts";
import { helperTables } from "./helper-tables.ts";
import type { TouchedKeys } from "./touched-keys.ts";

/** Of the tables that a copy makes for itself. A copy that another version of millrace began is not resumed. */
export const incrementalFormat = 3;

/** What an incremental copy depends on. It is resumed only while all of this is the same. */
export interface IncrementalFingerprint {
  readonly format?: number;
  /** `chunkedCopyFingerprint` of the table at the source. */
  readonly table: string;
  /** Rows that the copy does not bring are deleted. */
  readonly replaces: boolean;
  /** Whether it is the table's first copy, and the target. */
  readonly facts: string;
  readonly keyNames: readonly string[];
  /** The shape that the target follows; see `TouchedTable`. */
  readonly shape: string;
}

export function parseFingerprint(fingerprint: string): IncrementalFingerprint {
  return JSON.parse(fingerprint) as IncrementalFingerprint;
}

export class InterruptedCopies {
  constructor(
    private readonly connectorId: string,
    private readonly records: CopyRecords,
    private readonly touched: TouchedKeys,
    private readonly patienceMs: number,
  ) {}

  /** Before the first batch; in no transaction. */
  async load(client: Client): Promise<void> {
    for (const { tableId, fingerprint, ranges } of this.records.all("incremental")) {
      const { format, keyNames, shape } = parseFingerprint(fingerprint);
      const { touched: keys } = helperTables(this.connectorId, tableId);
      // A copy without ranges has nothing to resume.
      if (
        ranges.length > 0 &&
        format === incrementalFormat &&
        shape === this.touched.shapeOf(tableId) &&
        (await isThere(client, sqlName(keys)))
      ) {
        this.touched.begin({ tableId, keys, keyNames, shape });
      } else await this.drop(client, tableId);
    }
    await this.records.dropUnrecorded(client);
  }

  /** Whether a copy has been idle for too long. */
  get areAnyOverdue(): boolean {
    return this.records.all("incremental").some(({ tableId }) => this.#isOverdue(tableId));
  }

  /** Between two batches, in no transaction: drops copies that no longer fit these tables, or that are overdue. */
  async sweep(
    client: Client,
    tables: readonly TableShape[],
    isUnderWay: (tableId: number) => boolean,
  ): Promise<void> {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    for (const { tableId, fingerprint } of this.records.all("incremental")) {
      if (isUnderWay(tableId) || this.touched.get(tableId)?.idleSinceMs === null) continue;
      const table = byId.get(tableId);
      const isSame =
        table !== undefined &&
        table.coverage?.isUnpublished !== true &&
        chunkedCopyFingerprint(table) === parseFingerprint(fingerprint).table;
      if (!isSame || this.#isOverdue(tableId)) await this.drop(client, tableId);
    }
  }

  /** Between two batches, in no transaction. */
  async dropAll(client: Client): Promise<void> {
    for (const { tableId } of this.records.all("incremental")) await this.drop(client, tableId);
  }

  /** Between two batches, in no transaction: another copy of the table replaces it. */
  async drop(client: Client, tableId: number): Promise<void> {
    if (this.records.of(tableId, "incremental") === null) return;
    await this.records.drop(client, tableId);
    this.touched.end(tableId);
  }

  #isOverdue(tableId: number): boolean {
    const { idleSinceMs = null, invalidatedBy = null } = this.touched.get(tableId) ?? {};
    if (idleSinceMs === null) return false;
    return invalidatedBy !== null || performance.now() - idleSinceMs >= this.patienceMs;
  }
}

/** Whether the table is there and logged: a crash empties an unlogged one, and somebody may have dropped it. */
async function isThere(client: Client, name: string): Promise<boolean> {
  const { rowCount } = await client.query(
    "select from pg_class where oid = to_regclass($1) and relpersistence = 'p'",
    [name],
  );
  return rowCount === 1;
}
