// Gives a table at the sink the name that it has at the source by now, so that a table that was renamed keeps its rows.

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../change/relation.ts";
import { sqlName } from "../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import { MigrationRefused, notAllowed } from "./migration-refused.ts";
import type { ShapeLedger, ShapeRecord } from "./shape-ledger.ts";
import { createSchemas } from "./table-schema.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetNaming } from "./target-naming.ts";

type Name = Pick<Relation, "schema" | "name">;

export class TableRenamer {
  constructor(
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly naming: TargetNaming,
    private readonly copies: CopyLedger,
    private readonly shapes: ShapeLedger,
    /** Whether the source has the table still, as far as is known. */
    private readonly isPresent: (tableId: number) => boolean,
  ) {}

  /**
   * In the open transaction. False: the name is taken by a table that is not ours, or no longer the source's, and nothing was
   * done.
   */
  async follow(client: Client, record: ShapeRecord, relation: Relation): Promise<boolean> {
    await this.makeRoom(client, relation);
    const to = this.naming.target(relation);
    const isSame = sqlName(this.naming.target(record)) === sqlName(to);
    if (!isSame && (await exists(client, to))) return false;
    await this.#rename(client, record, relation);
    return true;
  }

  /** Another table of ours that has the relation's name still goes aside, and gets its own when its turn comes. */
  async makeRoom(client: Client, relation: Relation): Promise<void> {
    const occupant = this.occupantOf(relation);
    if (occupant) await this.#rename(client, occupant, await this.#freeName(client, occupant));
  }

  async #freeName(client: Client, { schema, tableId }: ShapeRecord): Promise<Name> {
    for (let i = 0; ; i++) {
      const name = `millrace_renamed_${tableId}${i === 0 ? "" : `_${i}`}`;
      if (!(await exists(client, this.naming.target({ schema, name })))) return { schema, name };
    }
  }

  /** The table of ours that has the relation's name still, and is another one of the source's; null when there is none. */
  occupantOf(relation: Relation): ShapeRecord | null {
    const occupant = this.shapes.named(relation);
    const isOther = occupant !== null && occupant.tableId !== relation.id && this.isPresent(occupant.tableId);
    return isOther ? occupant : null;
  }

  async #rename(client: Client, record: ShapeRecord, name: Name): Promise<void> {
    const from = this.naming.target(record);
    const to = this.naming.target(name);
    if (await exists(client, from)) {
      if (this.strategy.disable_all) throw renameRefused(from, to);
      await createSchemas(client, new Set([to.schema]));
      for (const sql of renameSql(from, to)) await client.query(sql);
    }
    await this.copies.rename(client, record, name);
    await this.shapes.rename(client, record, name);
  }
}

async function exists(client: Client, table: TargetName): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>("select to_regclass($1) is not null as exists", [
    sqlName(table),
  ]);
  return rows[0]?.exists === true;
}

function renameSql(from: TargetName, to: TargetName): readonly string[] {
  const moved = { schema: to.schema, name: from.name };
  return [
    ...(from.schema === to.schema
      ? []
      : [`alter table ${sqlName(from)} set schema ${escapeIdentifier(to.schema)}`]),
    ...(from.name === to.name
      ? []
      : [`alter table ${sqlName(moved)} rename to ${escapeIdentifier(to.name)}`]),
  ];
}

export function renameRefused(from: TargetName, to: TargetName): MigrationRefused {
  const why = `Table ${qualifiedName(from)} was renamed to ${qualifiedName(to)} at the source. ${notAllowed}`;
  return new MigrationRefused(why, renameSql(from, to));
}
