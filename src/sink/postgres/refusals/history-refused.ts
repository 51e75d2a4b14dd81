// The error of a history that has refused a row: somebody has altered it.

import { qualifiedName } from "../../../change/relation.ts";
import type { TargetName } from "../schema/target-name.ts";
import { MigrationRefused } from "./migration-refused.ts";

export class HistoryRefused extends MigrationRefused {
  constructor(history: TargetName, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`The history ${qualifiedName(history)} at the sink refuses a row: ${why}.`, [], null, cause);
  }
}
