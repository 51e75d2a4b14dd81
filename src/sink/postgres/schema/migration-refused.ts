// A table at the sink would have to change in a way that the connector may not, or cannot, change it: somebody has to.

import { MillraceError } from "../../../errors/millrace-error.ts";

/** For `why`. */
export const notAllowed = "migration_strategy does not allow millrace to change it.";

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
    super("sink_schema_mismatch", `${why} Run: ${sql}`, { cause });
  }
}
