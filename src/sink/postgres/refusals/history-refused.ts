// The error of a history that has refused a row: somebody has altered it.

import { qualifiedName } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { TargetName } from "../schema/target-name.ts";
import { MigrationRefused } from "./migration-refused.ts";

export class HistoryRefused extends MigrationRefused {
  constructor(history: TargetName, cause: unknown) {
    const { message } = describePostgresError(cause, "sink");
    super(`The history ${qualifiedName(history)} at the sink refuses a row. ${message}`, [], null, cause);
  }
}
