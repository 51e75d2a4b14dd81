// Renames a target when its source table is renamed, so that it keeps its rows.

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import type { ShapeLedger, ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { MigrationRefused, notAllowed } from "../refusals/migration-refused.ts";
import { createSchemas } from "./table-schema.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetNaming } from "./target-naming.ts";

type Name = Pick<Relation, "schema" | "name">;

/** A target that has the name which another one is to get. */
export interface OccupyingTarget {
  /** The name that makes room. */
  readonly aside: TargetName;
  /** Its own table has a copy. Otherwise that one is set aside, and told of by itself. */
  readonly isCopied: boolean;
}

/** A table of the source that has another name than its target. */
interface RenamedTable {
  readonly record: ShapeRecord;
  readonly relation: Relation;
}

export class TableRenamer {
  constructor(
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly naming: TargetNaming,
    private readonly copies: CopyLedger,
    private readonly shapes: ShapeLedger,
    /** Whether the source still has the table, as far as is known. */
    private readonly isPresent: (tableId: number) => boolean,
    /** Called for each table whose target was renamed. */
    private readonly renamed: (tableId: number) => void,
  ) {}

  /**
   * In the open transaction. Returns false, and does nothing, if the name belongs to a table that is not ours or that the source no longer has.
   */
  async follow(client: Client, record: ShapeRecord, relation: Relation): Promise<boolean> {
    await this.vacateName(client, relation);
    const to = this.naming.target(relation);
    const isSame = sqlName(this.naming.target(record)) === sqlName(to);
    if (!isSame && (await tableExists(client, to))) return false;
    await this.#rename(client, record, relation);
    return true;
  }

  /** Gives another target of ours that still has the relation's name a temporary one. It gets its own name when its changes come. */
  async vacateName(client: Client, relation: Relation): Promise<void> {
    const occupant = this.occupantOf(relation);
    if (occupant) await this.#rename(client, occupant, await this.#unusedName(client, occupant));
  }

  async #unusedName(client: Client, record: ShapeRecord): Promise<Name> {
    const aside = asideName(record);
    // Somebody has given its target that name.
    if (!(await tableExists(client, this.naming.target(record)))) return aside;
    for (let i = 0; ; i++) {
      const name = { ...aside, name: `${aside.name}${i === 0 ? "" : `_${i}`}` };
      if (!(await tableExists(client, this.naming.target(name)))) return name;
    }
  }

  /** Those whose targets somebody else has to rename: millrace may not. */
  leftToOthers(tables: readonly TableShape[]): readonly RenamedTable[] {
    if (!this.strategy.disable_all) return [];
    return tables.flatMap(({ relation }) => {
      const record = this.shapes.of(relation);
      return record !== null && qualifiedName(record) !== qualifiedName(relation)
        ? [{ record, relation }]
        : [];
    });
  }

  /** Finds targets that were renamed as it was told. In the open transaction. */
  async adopt(client: Client, renamed: readonly RenamedTable[]): Promise<void> {
    const isThere = (name: Name) => tableExists(client, this.naming.target(name));
    // First: another one may have the name that it left by now.
    for (const { record } of renamed) {
      const aside = asideName(record);
      if (record.name !== aside.name && (await isThere(aside))) await this.#recordName(client, record, aside);
    }
    for (const { relation } of renamed) {
      const record = this.shapes.of(relation);
      if (record === null || this.occupantOf(relation) !== null || (await isThere(record))) continue;
      if (await isThere(relation)) await this.#recordName(client, record, relation);
    }
  }

  /** The target of ours that has the relation's name but belongs to another source table; null: there is none. */
  occupantOf(relation: Relation): ShapeRecord | null {
    const occupant = this.shapes.named(relation);
    const isOther = occupant !== null && occupant.tableId !== relation.id && this.isPresent(occupant.tableId);
    return isOther ? occupant : null;
  }

  /** As `occupantOf`, with what is to be told of it. */
  occupyingTarget(relation: Relation): OccupyingTarget | null {
    const occupant = this.occupantOf(relation);
    if (occupant === null) return null;
    const isCopied = this.copies.pointOf(occupant.tableId) !== null;
    return { aside: this.naming.target(asideName(occupant)), isCopied };
  }

  async #rename(client: Client, record: ShapeRecord, name: Name): Promise<void> {
    const from = this.naming.target(record);
    const to = this.naming.target(name);
    if (await tableExists(client, from)) {
      if (this.strategy.disable_all) throw renameRefused(from, to);
      await createSchemas(client, new Set([to.schema]));
      if (from.schema !== to.schema) await renameClashing(client, from, to.schema);
      for (const sql of renameSql(from, to)) await client.query(sql);
    }
    await this.#recordName(client, record, name);
  }

  async #recordName(client: Client, record: ShapeRecord, name: Name): Promise<void> {
    await this.copies.rename(client, record, name);
    await this.shapes.rename(client, record, name);
    this.renamed(record.tableId);
  }
}

/** Frees the name of the table's target for another one. */
export function asideName({ schema, tableId }: Pick<ShapeRecord, "schema" | "tableId">): Name {
  return { schema, name: `millrace_renamed_${tableId}` };
}

export async function tableExists(client: Client, table: TargetName): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>("select to_regclass($1) is not null as exists", [
    sqlName(table),
  ]);
  return rows[0]?.exists === true;
}

const takenNamesQuery = `
select own.relname as name, own.oid::int8::text as oid
from pg_class own
join pg_class other on other.relnamespace = to_regnamespace($2) and other.relname = own.relname
where own.oid in (select indexrelid from pg_index where indrelid = $1::regclass)
  or own.relkind = 'S' and own.oid in (select objid from pg_depend where classid = 'pg_class'::regclass
    and refclassid = 'pg_class'::regclass and refobjid = $1::regclass and deptype in ('a', 'i'))`;

/** Renames the table's indexes and sequences whose names exist in the schema that they move to. */
export async function renameClashing(client: Client, table: TargetName, schema: string): Promise<void> {
  const { rows } = await client.query<{ name: string; oid: string }>(takenNamesQuery, [
    sqlName(table),
    escapeIdentifier(schema),
  ]);
  for (const { name, oid } of rows) {
    const free = escapeIdentifier(`millrace_renamed_${oid}`);
    await client.query(`alter table ${sqlName({ schema: table.schema, name })} rename to ${free}`);
  }
}

export function renameSql(from: TargetName, to: TargetName): readonly string[] {
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
  const why = `Table ${qualifiedName(from)} at the sink is ${qualifiedName(to)} at the source by now. ${notAllowed}`;
  return new MigrationRefused(why, renameSql(from, to));
}

/** The name is another target's, which may wait for this one's: each leaves its own first, so that the SQL can be run in any order. */
export function exchangeRefused(from: TargetName, to: TargetName, aside: TargetName): MigrationRefused {
  const why =
    `Table ${qualifiedName(from)} at the sink is ${qualifiedName(to)} at the source by now, and another table has that name at the sink. ` +
    `${notAllowed} It takes two steps: the second one is told once the name is free.`;
  return new MigrationRefused(why, renameSql(from, aside));
}

export function occupiedRefused(target: TargetName, { aside, isCopied }: OccupyingTarget): MigrationRefused {
  const why = `Table ${qualifiedName(target)} at the sink is that of another table, which was renamed at the source. ${notAllowed}`;
  return isCopied
    ? new MigrationRefused(why, renameSql(target, aside))
    : new MigrationRefused(`${why} That table is set aside as well: run what is told of it first.`, []);
}
