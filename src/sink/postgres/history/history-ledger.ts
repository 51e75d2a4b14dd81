// Records which tables have a history, and how it stands: its name, the columns that it follows, and whether it has been compared with the
// table's current copy. The records are in the target database and change with the rows.

import type { Client } from "pg";
import type { Column, Relation } from "../../../change/relation.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { TargetName } from "../schema/target-name.ts";
import { hasHistory } from "./history-naming.ts";

/** A column of a history that follows one of the table's. */
export interface FollowedHistoryColumn {
  /** The source's number; 0: not known. */
  readonly number: number;
  readonly name: string;
  /** As `format_type` printed it at the sink. */
  readonly type: string;
  /** The source's type, as `Column.typeName`. */
  readonly sourceType: string;
  /** The table no longer has it, or has it with another type: the history keeps it. */
  readonly isKept?: true;
  /** It has begun anew with another type: rows from before lack its values, until the history has been compared with the table. */
  readonly isBegunAnew?: true;
}

export interface HistoryRecord {
  /** The table's OID at the source. */
  readonly tableId: number;
  /** The table's name at the source when the catalog asked for its history. */
  readonly asked: TargetName;
  readonly history: TargetName;
  readonly versions: TargetName | null;
  readonly columns: readonly FollowedHistoryColumn[];
  readonly key: readonly string[];
  /** It has the table's rows as of some place of the stream: from there on it gets every change. */
  readonly isBegun: boolean;
  /** It was compared with the table's current copy. */
  readonly isReconciled: boolean;
}

/** The names of the columns that the table has. */
export function shownColumns({ columns }: HistoryRecord): readonly string[] {
  return columns.flatMap(({ name, isKept }) => (isKept ? [] : [name]));
}

/** Whether it has the table's rows, and follows the relation as it is: then it can take some rows of a copy by themselves. */
export function takesRows(record: HistoryRecord, { columns, key }: Relation): boolean {
  const follows = (column: Column) =>
    record.columns.some(
      ({ number, name, sourceType, isKept }) =>
        !isKept && number === column.number && name === column.name && sourceType === column.typeName,
    );
  const isSameKey = Bun.deepEquals(
    record.key,
    key.map((at) => columns[at]!.name),
  );
  const { isBegun, isReconciled } = record;
  return isBegun && isReconciled && key.length > 0 && isSameKey && columns.filter(hasHistory).every(follows);
}

/** The last row of each key is the table's. */
export function reconciled(record: HistoryRecord): HistoryRecord {
  const columns = record.columns.map(({ isBegunAnew: _, ...column }) => column);
  return { ...record, columns, isBegun: true, isReconciled: true };
}

/** It misses changes from here on. */
export function interrupted(record: HistoryRecord): HistoryRecord {
  return { ...record, isBegun: false, isReconciled: false };
}

interface HistoryRow {
  readonly table_id: number;
  readonly asked_schema: string;
  readonly asked_name: string;
  readonly history_schema: string;
  readonly history_name: string;
  readonly versions_name: string | null;
  readonly columns: readonly FollowedHistoryColumn[];
  readonly key: readonly string[];
  readonly is_begun: boolean;
  readonly is_reconciled: boolean;
}

export class HistoryLedger {
  readonly #records = new Map<number, HistoryRecord>();

  constructor(
    private readonly connectorId: string,
    private readonly undo: UndoLog,
  ) {}

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<HistoryRow>(
      "select table_id::float8, asked_schema, asked_name, history_schema, history_name, versions_name, columns, key_names as key, " +
        "is_begun, is_reconciled from millrace.table_history where connector_id = $1",
      [this.connectorId],
    );
    this.#records.clear();
    for (const row of rows) this.#records.set(row.table_id, recordOf(row));
  }

  /** The records were deleted. */
  forgetAll(): void {
    this.#records.clear();
  }

  of(tableId: number): HistoryRecord | null {
    return this.#records.get(tableId) ?? null;
  }

  get all(): readonly HistoryRecord[] {
    return [...this.#records.values()];
  }

  /** The record of the table that has the history of this name; null: no table has. */
  named({ schema, name }: TargetName): HistoryRecord | null {
    return this.all.find(({ history }) => history.schema === schema && history.name === name) ?? null;
  }

  /** Durable with the open transaction. */
  async write(client: Client, record: HistoryRecord): Promise<void> {
    const { tableId, asked, history, versions, columns, key, isBegun, isReconciled } = record;
    await client.query(
      "insert into millrace.table_history (connector_id, table_id, asked_schema, asked_name, history_schema, history_name, " +
        "versions_name, columns, key_names, is_begun, is_reconciled) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) " +
        "on conflict (connector_id, table_id) do update set asked_schema = excluded.asked_schema, asked_name = excluded.asked_name, " +
        "history_schema = excluded.history_schema, history_name = excluded.history_name, versions_name = excluded.versions_name, " +
        "columns = excluded.columns, key_names = excluded.key_names, is_begun = excluded.is_begun, is_reconciled = excluded.is_reconciled",
      [
        ...[this.connectorId, tableId, asked.schema, asked.name, history.schema, history.name],
        ...[versions?.name ?? null, JSON.stringify(columns), key, isBegun, isReconciled],
      ],
    );
    this.#changed(tableId, record);
  }

  /** Durable with the open transaction. The history itself stays. */
  async forget(client: Client, tableId: number): Promise<void> {
    await client.query("delete from millrace.table_history where connector_id = $1 and table_id = $2", [
      this.connectorId,
      tableId,
    ]);
    this.#changed(tableId, null);
  }

  /** Another session has recorded a copy of the table, and with it that the history is to be compared. */
  copied(tableId: number): void {
    const record = this.of(tableId);
    if (record) this.#records.set(tableId, { ...record, isReconciled: false });
  }

  #changed(tableId: number, now: HistoryRecord | null): void {
    const before = this.of(tableId);
    this.undo.changed(() => this.#set(tableId, before));
    this.#set(tableId, now);
  }

  #set(tableId: number, record: HistoryRecord | null): void {
    if (record) this.#records.set(tableId, record);
    else this.#records.delete(tableId);
  }
}

/** In the transaction of a copy of the table, or of rows of it: its history is to be compared with them. */
export async function historyIsBehind(client: Client, connectorId: string, tableId: number): Promise<void> {
  await client.query(
    "update millrace.table_history set is_reconciled = false where connector_id = $1 and table_id = $2",
    [connectorId, tableId],
  );
}

function recordOf(row: HistoryRow): HistoryRecord {
  const { history_schema: schema, versions_name: versions } = row;
  return {
    tableId: row.table_id,
    asked: { schema: row.asked_schema, name: row.asked_name },
    history: { schema, name: row.history_name },
    versions: versions === null ? null : { schema, name: versions },
    columns: row.columns,
    key: row.key,
    isBegun: row.is_begun,
    isReconciled: row.is_reconciled,
  };
}
