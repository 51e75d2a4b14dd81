// Migrates the tables to this build's schema. The caller holds a lock, because Drizzle takes none.

import { sql } from "drizzle-orm";
import { type MigrationMeta, readMigrationFiles } from "drizzle-orm/migrator";
import type { PgDialect, PgSession } from "drizzle-orm/pg-core";
import { MillraceError } from "../errors/millrace-error.ts";
import { type Database, rowsOf } from "./database.ts";
import { migrationsDirectory } from "./embedded/embedded-files.ts";
import { schemaName, settings } from "./schema.ts";

const config = { migrationsFolder: migrationsDirectory(), migrationsSchema: schemaName };

/** The migrations of this build, oldest first. */
export const migrations = (): MigrationMeta[] => readMigrationFiles(config);

/**
 * Applies the missing migrations in one transaction. Throws `invalid_setting` when the tables are those of a later
 * build, and this one cannot work on them.
 */
export async function migrate(database: Database, known = migrations()): Promise<void> {
  await refuseLater(database, latestMigration(known));
  // library edge: the migrators of Drizzle's two drivers do exactly this, each typed for its own driver.
  const { dialect, session } = database as unknown as { dialect: PgDialect; session: PgSession };
  await dialect.migrate(known, session, config);
}

/**
 * The oldest migration that a build must know to work on these tables, by the millisecond of its creation. A migration
 * that older builds cannot live with moves it. A change needs one, even where it changes no table, when it stores anything that an older
 * build would read wrongly or pass over, and rows would then be lost, doubled, out of order or taken for exact. That holds for what is
 * stored at sinks too.
 */
export const oldestCompatibleSql = sql`select value from ${settings} where name = 'oldest_compatible_migration'`;

/** Of the newest migration that this build knows. */
export function latestMigration(known = migrations()): number {
  return known.at(-1)?.folderMillis ?? 0;
}

export function laterVersion(): MillraceError {
  return new MillraceError(
    "invalid_setting",
    "The state was written by a later version of millrace, and this one does not know its tables. Start that version, or restore " +
      "the backup of the state that was taken before the upgrade.",
  );
}

/**
 * Drizzle ignores migrations that it does not know. It identifies a migration by the millisecond of its creation. A later
 * build's tables may be such that this build can go on: so the replicas of an installation are replaced one by one.
 */
async function refuseLater(database: Database, latestKnown: number): Promise<void> {
  const record = `${schemaName}.__drizzle_migrations`;
  const [found] = await rowsOf<{ there: boolean }>(
    database,
    sql`select to_regclass(${record}) is not null as there`,
  );
  if (!found?.there) return;
  const latest = sql`select max(created_at)::float8 as made from ${sql.raw(record)}`;
  const [{ made } = { made: null }] = await rowsOf<{ made: number | null }>(database, latest);
  if (made === null || made <= latestKnown) return;
  const [marker] = await rowsOf<{ value: string }>(database, oldestCompatibleSql);
  if (marker === undefined || Number(marker.value) > latestKnown) throw laterVersion();
}
