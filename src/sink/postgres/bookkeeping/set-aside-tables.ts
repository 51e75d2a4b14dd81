// Tables that are set aside while the others go on: they need a change at the sink that the connector may not make, or the source does not
// let them be read. Their changes are skipped until a new copy. The record, in the target database, is made before the checkpoint passes a
// skipped change, and deleted in the transaction of the copy.

import type { Client } from "pg";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import type { SetAsideTable, UnreadableTable } from "../../sink-events.ts";
import type { MigrationRefused } from "../refusals/migration-refused.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import type { ShapeLedger } from "./shape-ledger.ts";

interface SetAsideRecord extends SetAsideTable {
  readonly since: Lsn;
  readonly tableId: number;
  /** The column at the sink that must take null; null: the reason is another one. */
  readonly column: string | null;
}

interface SetAsideRow {
  readonly table_id: number;
  readonly schema: string;
  readonly name: string;
  readonly since: string;
  readonly reason: string;
  readonly commands: readonly string[];
  readonly null_column: string | null;
}

export interface AskedTable {
  readonly relation: Relation;
  /** The column at the sink that must take null; null: the reason is another one. */
  readonly nullColumn: string | null;
  /** The SQL that was last told of a table that is set aside, or is about to be: all of its columns are compared then. Null: it is neither. */
  readonly reported: readonly string[] | null;
}

/** Returns for each table why it cannot go on; null: it can. */
export type MigrationCheck = (tables: readonly AskedTable[]) => Promise<readonly (MigrationRefused | null)[]>;

export class SetAsideTables {
  readonly #records = new Map<number, SetAsideRecord>();
  /** Tables that still had to wait at the last `review`. */
  readonly #waiting = new Map<number, Relation>();
  /** Ids of those that can go on: each is about to be copied. */
  #ready = new Set<number>();
  /** The tables of the source, under their current names. */
  #present = new Map<number, Relation>();

  constructor(
    private readonly connectorId: string,
    private readonly ledger: CopyLedger,
    private readonly shapes: Pick<ShapeLedger, "of">,
    private readonly report: (tables: readonly SetAsideTable[]) => void,
  ) {}

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<SetAsideRow>(
      "select table_id::float8, table_schema as schema, table_name as name, since::text, reason, commands, null_column " +
        "from millrace.set_aside where connector_id = $1",
      [this.connectorId],
    );
    this.forget();
    for (const { table_id: tableId, null_column: column, since, ...row } of rows) {
      this.#records.set(tableId, { ...row, tableId, column, since: parseLsn(since) });
    }
  }

  /** Whether the changes of the table with this id are skipped. */
  has(tableId: number): boolean {
    return this.#records.has(tableId);
  }

  /** The column that must take null before the table is copied. */
  nullColumnOf({ id }: Relation): string | null {
    return this.#records.get(id)?.column ?? null;
  }

  /** The SQL that was last reported; null: the table is not set aside. */
  commandsOf({ id }: Relation): readonly string[] | null {
    return this.#records.get(id)?.commands ?? null;
  }

  /** Whether a table waits for a change at the sink. */
  get isAnyWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Skips the table's changes from `since` on, and voids its copy. In a transaction of its own: durable on return. */
  async add(client: Client, relation: Relation, refusal: MigrationRefused, since: Lsn): Promise<void> {
    await this.#add(client, relation, refusal, since);
    this.#reportAll();
  }

  async #add(client: Client, relation: Relation, refusal: MigrationRefused, since: Lsn): Promise<void> {
    const { why: reason, commands, column } = refusal;
    await this.#recordSetAside(client, relation, { reason, commands, column }, since);
    this.#waiting.set(relation.id, relation);
    this.#ready.delete(relation.id);
  }

  async #recordSetAside(
    client: Client,
    relation: Relation,
    { reason, commands, column }: Pick<SetAsideRecord, "reason" | "commands" | "column">,
    since: Lsn,
  ): Promise<void> {
    const { id, schema, name } = relation;
    const before = this.#records.get(id);
    const record = { tableId: id, schema, name, since: before?.since ?? since, reason, commands, column };
    if (JSON.stringify(facts(record)) !== JSON.stringify(before && facts(before))) {
      await client.query("begin");
      await this.ledger.voidOf(client, relation);
      // Without a copy, the stream may have brought rows before. They miss changes now, so the first copy must replace them.
      if (this.shapes.of(relation) !== null) await this.ledger.voidUncopied(client, relation);
      await client.query(writeSql, [this.connectorId, ...facts(record)]);
      await client.query("commit");
    }
    this.#records.set(id, record);
    if (!this.#present.has(id)) this.#present.set(id, relation);
  }

  /**
   * Returns those of the `missing` tables that can be copied now. The others are set aside, or stay so for their current reasons. Unreadable
   * tables are set aside until they are copied. `since`: changes before it were applied.
   */
  async review(
    client: Client,
    tables: readonly TableShape[],
    missing: readonly TableShape[],
    unreadable: readonly UnreadableTable[],
    check: MigrationCheck,
    since: Lsn,
  ): Promise<readonly TableShape[]> {
    this.#present = new Map(tables.map(({ relation }) => [relation.id, relation]));
    this.#waiting.clear();
    this.#ready = new Set(missing.map(({ relation }) => relation.id));
    const refusals = await check(missing.map(({ relation }) => this.#checkable(relation)));
    const waiting = new Set<TableShape>();
    const unreadableById = new Map(unreadable.map((each) => [each.table.relation.id, each]));
    for (const [i, table] of missing.entries()) {
      const { relation } = table;
      const refusal = refusals[i];
      const denied = unreadableById.get(relation.id);
      if (refusal) await this.#add(client, relation, refusal, since);
      else if (denied) {
        const { reason, isDue } = denied;
        const column = this.nullColumnOf(relation);
        await this.#recordSetAside(client, relation, { reason, commands: [], column }, since);
        this.#ready.delete(relation.id);
        if (!isDue) waiting.add(table);
      }
      if (refusal) waiting.add(table);
    }
    this.#reportAll();
    return missing.filter((table) => !waiting.has(table));
  }

  /** Whether a waiting table can go on, or waits for something else by now. */
  async isAnyChanged(check: MigrationCheck): Promise<boolean> {
    const waiting = [...this.#waiting.values()].map((relation) => this.#checkable(relation));
    const refusals = await check(waiting);
    return waiting.some(({ relation }, i) => {
      const known = this.#records.get(relation.id);
      return refusals[i]?.why !== known?.reason || refusals[i]?.commands.join() !== known?.commands.join();
    });
  }

  /** A copy of the table is durable, and with it the end of the set-aside. */
  copied({ id }: Relation): void {
    if (this.#records.delete(id)) this.#reportAll();
  }

  forget(): void {
    this.#records.clear();
    this.#waiting.clear();
  }

  #checkable(relation: Relation): AskedTable {
    return { relation, nullColumn: this.nullColumnOf(relation), reported: this.commandsOf(relation) };
  }

  /** Tables that the source has dropped are not reported: nobody needs to repair them. */
  #reportAll(): void {
    const reported = [...this.#records.values()].flatMap((record) => {
      const now = this.#present.get(record.tableId);
      if (!now) return [];
      const what = this.#ready.has(record.tableId) ? goesOn : {};
      return [{ ...record, schema: now.schema, name: now.name, ...what }];
    });
    this.report(reported);
  }
}

const goesOn = {
  reason: "It can go on: it is being copied again.",
  commands: [],
  isCopiedAgain: true,
};

const writeSql =
  "insert into millrace.set_aside (connector_id, table_id, table_schema, table_name, since, reason, commands, null_column) " +
  "values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (connector_id, table_id) do update set " +
  "table_schema = excluded.table_schema, table_name = excluded.table_name, reason = excluded.reason, " +
  "commands = excluded.commands, null_column = excluded.null_column";

/** In the order of the columns. */
function facts({
  tableId,
  schema,
  name,
  since,
  reason,
  commands,
  column,
}: SetAsideRecord): readonly unknown[] {
  return [tableId, schema, name, formatLsn(since), reason, commands, column];
}

/** In the transaction of the table's copy. */
export async function endSetAside(client: Client, connectorId: string, { id }: Relation): Promise<void> {
  await client.query("delete from millrace.set_aside where connector_id = $1 and table_id = $2", [
    connectorId,
    id,
  ]);
}

/** As it is told where no copy is made by itself. */
export function withoutCopies(table: SetAsideTable): SetAsideTable {
  const task = "No copy is made by itself (skip_snapshots): create a Snapshot task for the table then.";
  return { ...table, reason: `${table.reason} ${task}` };
}
