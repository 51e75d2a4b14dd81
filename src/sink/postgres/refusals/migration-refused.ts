// The error of a target that needs a change which the connector may not or cannot make: somebody has to make it.

import { MillraceError } from "../../../errors/millrace-error.ts";

/** For `why`. */
export const notAllowed = "migration_strategy does not allow millrace to change it.";

export class MigrationRefused extends MillraceError {
  constructor(
    /** The reason, without the commands. */
    readonly why: string,
    /** The SQL that makes the change. */
    commands: readonly string[],
    /** The column at the sink that must take null; null: the change is another one. */
    readonly column: string | null = null,
    cause?: unknown,
  ) {
    const sql = commands.map((command) => `${command};`).join(" ");
    super("sink_schema_mismatch", sql === "" ? why : `${why} Run: ${sql}`, { cause, commands });
  }
}
