// Answers which of the source's generated columns this server computes to the same values. It must have the functions and
// the types that an expression uses, and the same rules for text, and be no older than the source. Whether it takes the
// expression, it is asked.

import { type Client, escapeIdentifier } from "pg";
import type { ComputedAnswer, ComputedColumns } from "../../../change/computed-columns.ts";
import type { Column, GeneratedColumn, Relation, TableShape } from "../../../change/relation.ts";
import { columnLocaleSql } from "../../../connection/column-locale.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { serverVersion } from "../../../connection/server-version.ts";
import type { ShapeLedger } from "../bookkeeping/shape-ledger.ts";
import {
  type FollowedShape,
  isAllowed,
  type MigrationStrategy,
} from "../schema/migration/table-migration.ts";
import { resolveTypes } from "../schema/table-schema.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { readTargetTables, type TargetTable } from "../schema/target-table.ts";
import { computedSql } from "./computed-column.ts";
import { isComputedAs, ownColumns } from "./computed-plan.ts";

/** A table as the sink has it. */
interface AtSink {
  readonly relation: Relation;
  /** Null: it is still to be made. */
  readonly target: TargetTable | null;
  readonly known: FollowedShape | null;
}

interface Asked {
  readonly naming: TargetNaming;
  readonly shapes: ShapeLedger;
  readonly strategy: MigrationStrategy;
  readonly sourceVersion: number;
}

/** In no transaction. The client's search_path must be empty. */
export async function computedAnswers(
  client: Client,
  { naming, shapes, strategy, sourceVersion }: Asked,
  tables: readonly TableShape[],
): Promise<ComputedColumns> {
  const older = olderProblem(await serverVersion(client), sourceVersion);
  const targets = await readTargetTables(
    client,
    tables.map(({ relation }) => naming.target(shapes.of(relation) ?? relation)),
  );
  const answers = new Map<number, Map<number, ComputedAnswer>>();
  for (const [i, { relation, generated = [] }] of tables.entries()) {
    const table = { relation, target: targets[i] ?? null, known: shapes.of(relation) };
    const ofTable = new Map<number, ComputedAnswer>();
    for (const column of generated) {
      const known = naming.renames
        ? answerOf("identifier_naming renames columns")
        : await knownAnswer(client, table, column, strategy, older);
      ofTable.set(column.column.number, known ?? answerOf(await tryOut(client, table, column)));
    }
    answers.set(relation.id, ofTable);
  }
  return answers;
}

/** An older server may take an expression, and compute it otherwise, or fail with some values. */
function olderProblem(version: number, sourceVersion: number): string | null {
  const [major, sourceMajor] = [Math.trunc(version / 10_000), Math.trunc(sourceVersion / 10_000)];
  return major < sourceMajor ? `its version ${major} is older than the source's ${sourceMajor}` : null;
}

/** `problem`: why the sink does not compute the column; null: it does. */
function answerOf(problem: string | null): ComputedAnswer {
  return problem === null ? { isComputed: true, isThere: false } : { isComputed: false, reason: problem };
}

/** What the target's columns and the version tell; null: nothing. `older`: as `olderProblem` gives it. */
async function knownAnswer(
  client: Client,
  { relation, target, known }: AtSink,
  generated: GeneratedColumn,
  strategy: MigrationStrategy,
  older: string | null,
): Promise<ComputedAnswer | null> {
  const { name, number } = generated.column;
  const there = target?.columns.find((column) => column.name === name);
  // Somebody has made it: it takes no values.
  if (there?.generatedAs && there.generatedAs.own === null) return answerOf(null);
  const nameOf = (wanted: number) =>
    [...(known?.columns ?? []), ...relation.columns].find((column) => column.number === wanted)?.name;
  const own = target && ownColumns(target).find((column) => isComputedAs(column, generated, nameOf));
  if (own) {
    // They may have been replaced since the column was made: its expression does not show that.
    const problem = await functionProblem(client, generated);
    return problem === null ? { isComputed: true, isThere: own.name === name } : answerOf(problem);
  }
  if (older !== null) return answerOf(older);
  const isGoing = known?.columns.some(
    (column) => column.name === name && column.number > 0 && column.number !== number && !column.isKept,
  );
  const isFree = there === undefined || there.generated || (isGoing === true && isAllowed(strategy, "Drop"));
  if (!isFree) return answerOf("it is an ordinary column there");
  return target === null || isAllowed(strategy, "Add")
    ? null
    : answerOf("migration_strategy does not allow to add it");
}

async function tryOut(client: Client, table: AtSink, generated: GeneratedColumn): Promise<string | null> {
  const used = generated.uses.flatMap(({ number, locale }) => {
    const column = table.relation.columns.find((each) => each.number === number);
    return column ? [{ column, locale }] : [];
  });
  if (used.length < generated.uses.length) return "it lacks a column that the expression uses";
  const columns = [generated.column, ...used.map(({ column }) => column)];
  const types = await resolveTypes(client, columns);
  if (columns.some(({ typeName }, i) => types[i]?.name !== typeName))
    return "it lacks a type that the expression uses";
  const locales = await readLocales(client, table.target);
  if (![null, locales.ofDatabase].includes(generated.locale))
    return "the database has another locale or encoding there";
  for (const { column, locale } of used) {
    const problem = columnProblem(table, column, locale, locales);
    if (problem !== null) return problem;
  }
  return (
    (await functionProblem(client, generated)) ??
    (await expressionProblem(client, generated, columns.slice(1)))
  );
}

/** Whether the target's column holds what the source's does, under the same rules. */
function columnProblem(
  { target, known }: AtSink,
  { number, name, typeName }: Column,
  locale: string | null,
  locales: Locales,
): string | null {
  const before = known?.columns.find((column) => column.number === number);
  const there = target?.columns.find((column) => column.name === (before?.name ?? name));
  // A type that the target still follows changes with the source's.
  if (there && ![typeName, before?.type].includes(there.typeName))
    return `column ${name} has another type there`;
  const atSink = there ? (locales.columns.get(there.name) ?? null) : locales.ofDatabase;
  return locale === null || locale === atSink
    ? null
    : `text of column ${name} has another locale or encoding there`;
}

interface Locales {
  /** Of a text column that is still to be made. */
  readonly ofDatabase: string | null;
  readonly columns: ReadonlyMap<string, string | null>;
}

const localesQuery = `
select a.attname as name, ${columnLocaleSql("a")} as locale from pg_attribute a where a.attrelid = $1 and a.attnum > 0
union all
select null, ${columnLocaleSql("a")} from (select 100::oid as attcollation) a`;

async function readLocales(client: Client, target: TargetTable | null): Promise<Locales> {
  const { rows } = await client.query<{ name: string | null; locale: string | null }>(localesQuery, [
    target?.oid ?? 0,
  ]);
  return {
    ofDatabase: rows.find(({ name }) => name === null)?.locale ?? null,
    columns: new Map(rows.map(({ name, locale }) => [name ?? "", locale])),
  };
}

async function functionProblem(client: Client, { functions }: GeneratedColumn): Promise<string | null> {
  if (functions.length === 0) return null;
  const { rows } = await client.query<{ definition: string | null }>(
    `select pg_get_functiondef(to_regprocedure(f.signature)) as definition
     from unnest($1::text[]) with ordinality as f(signature, place) order by f.place`,
    [functions.map(({ signature }) => signature)],
  );
  const other = functions.find(({ definition }, i) => rows[i]?.definition !== definition);
  return other ? `function ${other.signature} is missing or another one there` : null;
}

/** Makes the column in a temporary table, and takes that back. */
async function expressionProblem(
  client: Client,
  generated: GeneratedColumn,
  used: readonly Column[],
): Promise<string | null> {
  const columns = [
    ...used.map(({ name, typeName }) => `${escapeIdentifier(name)} ${typeName}`),
    computedSql(generated, generated.column.typeName),
  ];
  await client.query("begin");
  try {
    await client.query(`create temporary table millrace_computed (${columns.join(", ")})`);
    return null;
  } catch (error) {
    // No function, type or privilege, or a feature that the version lacks.
    if (!/^(0A|22|3F|42)/.test(sqlStateOf(error) ?? "")) throw error;
    return `the server says: ${(error as Error).message} (SQLSTATE ${sqlStateOf(error)})`;
  } finally {
    await client.query("rollback").catch(() => {});
  }
}
