// Checks, without changing anything, whether a target needs a change that the connector may not make.

import type { Client } from "pg";
import { qualifiedName, type Relation } from "../../../../change/relation.ts";
import { sqlName } from "../../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../../connector/config/sink-config.ts";
import type { ShapeRecord } from "../../bookkeeping/shape-ledger.ts";
import { clearComputed, computedFrom } from "../../generated/computed-plan.ts";
import { MigrationRefused } from "../../refusals/migration-refused.ts";
import { repairSql } from "../../refusals/repair-sql.ts";
import {
  compareColumns,
  describeComputed,
  noDifferences,
  plainColumnSql,
  type TableDifferences,
} from "../../refusals/table-differences.ts";
import { retypeOf } from "../../types/retype.ts";
import { describeDifferences } from "../../types/type-differences.ts";
import {
  asideName,
  exchangeRefused,
  type OccupyingTarget,
  occupiedRefused,
  renameRefused,
} from "../table-rename.ts";
import { nameTaken } from "../taken-name.ts";
import type { TargetName } from "../target-name.ts";
import type { TargetNaming } from "../target-naming.ts";
import { readTargetTables, type TargetTable } from "../target-table.ts";
import { findDependents } from "./column-dependents.ts";
import {
  allowNullSql,
  historyInTheWay,
  migrationRefused,
  migrationSql,
  nullRefused,
} from "./migration-sql.ts";
import { stillRebuilt } from "./rebuilt-objects.ts";
import { changesOfShared } from "./shared-migration.ts";
import { fitsByName, isAllowed, planMigration, refusedChanges, type TableChange } from "./table-migration.ts";

export interface CheckedTable {
  readonly relation: Relation;
  /** The shape that the target follows. */
  readonly known: ShapeRecord | null;
  /** The target of another table that still has the relation's name at the sink, and will be renamed; null: there is none. */
  readonly occupying: OccupyingTarget | null;
  /** The next copy replaces all rows. */
  readonly isReplaced: boolean;
  /** A column that must take null. */
  readonly nullColumn: string | null;
  /** Names of the columns that are NOT NULL at the source; null: not known. */
  readonly notNull: readonly string[] | null;
  /** See `AskedTable`. */
  readonly reported: readonly string[] | null;
  /** A value was refused that the type of its column may not take. */
  readonly isOfType?: boolean;
}

/** Returns for each table why it cannot take its relation's rows; null: it can, or does not exist. */
export async function checkMigrations(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  naming: TargetNaming,
  tables: readonly CheckedTable[],
): Promise<readonly (MigrationRefused | null)[]> {
  const names = tables.map(({ relation }) => naming.target(relation));
  const named = await readTargetTables(client, names);
  const former = tables.map(({ relation, known }) => naming.target(known ?? relation));
  const before = await readOthers(client, former, names, named);
  const refusals: (MigrationRefused | null)[] = [];
  for (const [i, table] of tables.entries()) {
    const own = (table.known && before[i]) ?? null;
    const free = (table.occupying === null && named[i]) || null;
    const isNamed = named[i] !== undefined && named[i] !== null;
    const refusal = strategy.disable_all ? checkName(naming, table, own, isNamed) : null;
    const target = strategy.disable_all ? (free ?? own) : (own ?? free);
    refusals.push(
      refusal ??
        (target === null
          ? await nameTaken(client, naming.target(table.relation))
          : await checkMigration(client, strategy, naming, table, target)),
    );
  }
  return refusals;
}

/**
 * Reads the targets of `wanted`. Where a name is the one in `names`, `read` has the target already: most tables keep their names, and to read many
 * targets takes long.
 */
async function readOthers(
  client: Client,
  wanted: readonly TargetName[],
  names: readonly TargetName[],
  read: readonly (TargetTable | null)[],
): Promise<readonly (TargetTable | null)[]> {
  const isRead = wanted.map((name, i) => sqlName(name) === sqlName(names[i]!));
  const asked = wanted.filter((_, i) => !isRead[i]);
  const others = await readTargetTables(client, asked);
  let next = 0;
  return wanted.map((_, i) => (isRead[i] ? read[i] : others[next++]) ?? null);
}

/** Why the target cannot have the relation's name, where somebody else has to rename it; null: it has it, or is yet to be made. */
function checkName(
  naming: TargetNaming,
  { relation, known, occupying }: CheckedTable,
  own: TargetTable | null,
  isNamed: boolean,
): MigrationRefused | null {
  const wanted = naming.target(relation);
  const isOwn = own !== null && sqlName(own.target) === sqlName(wanted);
  if (!isNamed) return own === null || isOwn ? null : renameRefused(own.target, wanted);
  // Somebody has made it, or renamed it already.
  if (occupying === null) return null;
  const aside = known && naming.target(asideName(known));
  if (own === null || aside === null || sqlName(own.target) === sqlName(aside))
    return occupiedRefused(wanted, occupying);
  return exchangeRefused(own.target, wanted, aside);
}

async function checkMigration(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  naming: TargetNaming,
  asked: CheckedTable,
  given: TargetTable,
): Promise<MigrationRefused | null> {
  const { relation, known, nullColumn, isReplaced, reported } = asked;
  const { target } = given;
  if (given.isHistory) return historyInTheWay(target);
  const { table, drops } = clearComputed(given, relation, strategy);
  const isShared = naming.isShared(relation);
  const all = planMigration(table, known, relation, strategy);
  const changes = isShared ? changesOfShared(table, all) : all;
  const wanted = refusedChanges(strategy, changes);
  // As `fitTable` does: otherwise the copy makes the changes.
  const fits = wanted.length > 0 && isReplaced && !isShared && fitsByName(table, relation, strategy);
  const refused = fits ? [] : wanted;
  // The rows of others that are in a shared target would not come back.
  if (isShared && refused.length > 0)
    return migrationRefused(target, refused, await migrationSql(client, target, refused, false));
  const made = fits ? [] : changes;
  const differing =
    isShared || (reported === null && refused.length === 0)
      ? noDifferences
      : await differencesOf(client, table, asked, made);
  const mayAllowNull = isAllowed(strategy, "Nullability");
  const isRefusing = table.columns.some(({ name, notNull }) => name === nullColumn && notNull);
  const nulls = mayAllowNull
    ? []
    : [...new Set([...differing.nulls, ...(isRefusing && nullColumn !== null ? [nullColumn] : [])])];
  const retypes = differing.types.map(retypeOf);
  const computed = [...drops, ...computedFrom(table, made, strategy)];
  const altered = [...made, ...retypes];
  const dependents =
    (await findDependents(client, table, altered, computed)) ??
    (reported && (await stillRebuilt(client, table, altered, reported)));
  return await refusalOf(client, table, { refused, retypes, differing: { ...differing, nulls }, dependents });
}

/** Types that took most values until one was refused differ until somebody has run the SQL that was told then. */
async function differencesOf(
  client: Client,
  table: TargetTable,
  { relation, notNull, reported, isOfType = false }: CheckedTable,
  changes: readonly TableChange[],
): Promise<TableDifferences> {
  const compared = { table, relation, notNull, changes };
  const strict = compareColumns(compared, true);
  if (isOfType || strict.types.length === 0) return strict;
  const retypes = strict.types.map(retypeOf);
  const { commands } = await repairSql(client, table, retypes);
  return commands.some((command) => reported?.includes(command)) ? strict : compareColumns(compared, false);
}

interface Findings {
  readonly refused: readonly TableChange[];
  readonly retypes: readonly TableChange[];
  readonly differing: TableDifferences;
  readonly dependents: MigrationRefused | null;
}

async function refusalOf(
  client: Client,
  table: TargetTable,
  { refused, retypes, differing, dependents }: Findings,
): Promise<MigrationRefused | null> {
  const { target } = table;
  const { types, nulls, computed } = differing;
  const [nullColumn = null] = nulls;
  if (refused.length + types.length + nulls.length + computed.length === 0) return dependents;
  if (refused.length + types.length + computed.length === 0 && !dependents && nulls.length === 1)
    return nullRefused(target, nulls[0]!);
  const repair = await repairSql(client, table, [...refused, ...retypes]);
  const emptied = new Set(types.map(({ column }) => column.name));
  const allowNull = nulls.filter((name) => !emptied.has(name));
  const why = [
    refused.length > 0
      ? migrationRefused(target, refused, []).why
      : `Table ${qualifiedName(target)} at the sink does not fit the source's.`,
    describeDifferences(types),
    describeComputed(computed),
    nulls.length > 0 ? `Columns do not take null there, and the source's do: ${nulls.join(", ")}.` : "",
    dependents?.why ?? "",
    repair.isEmptying ? "What the SQL empties comes back by the copy that follows it." : "",
  ];
  const commands = [
    ...(dependents?.commands ?? []),
    ...computed.map((column) => plainColumnSql(target, column)),
    ...repair.commands,
    ...allowNull.map((name) => allowNullSql(target, name)),
  ];
  return new MigrationRefused(
    why.filter((text) => text !== "").join(" "),
    [...new Set(commands)],
    nullColumn,
  );
}
