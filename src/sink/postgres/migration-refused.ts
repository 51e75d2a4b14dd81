// A table at the sink would have to change in a way that the connector may not change it: somebody has to.

import { MillraceError } from "../../errors/millrace-error.ts";

export class MigrationRefused extends MillraceError {
  constructor(
    /** What is the matter; without the commands. */
    readonly why: string,
    /** SQL that mends it, without semicolons. */
    readonly commands: readonly string[],
    /** The column at the sink that would have to take null; null: that is not the matter. */
    readonly column: string | null = null,
    cause?: unknown,
  ) {
    const sql = commands.map((command) => `${command};`).join(" ");
    super(
      "sink_schema_mismatch",
      `${why} migration_strategy does not allow millrace to change it. Run: ${sql}`,
      {
        cause,
      },
    );
  }
}
