// Brings the tables to the shape that this build needs. The caller holds a lock: Drizzle takes none.

import { readMigrationFiles } from "drizzle-orm/migrator";
import type { PgDialect, PgSession } from "drizzle-orm/pg-core";
import type { Database } from "./database.ts";
import { migrationsDirectory } from "./embedded-files.ts";
import { schemaName } from "./schema.ts";

/** Applies what is missing. One transaction: all of it or none. */
export async function migrate(database: Database): Promise<void> {
  const config = { migrationsFolder: migrationsDirectory(), migrationsSchema: schemaName };
  // library edge: the migrators of Drizzle's two drivers do exactly this, each typed for its own driver.
  const { dialect, session } = database as unknown as { dialect: PgDialect; session: PgSession };
  await dialect.migrate(readMigrationFiles(config), session, config);
}
