// Tables whose rows may have enum labels that the source has renamed: their copies do not count any more, also those that are under way.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable } from "../schema/target-table.ts";
import { holdsOldLabels } from "./old-labels.ts";
import type { OnAmbiguousLabels } from "./type-maker.ts";

export type Outdate = (relations: readonly Relation[]) => Promise<void>;

/** Durable at once, or with the open transaction. */
export function outdatedBy(client: Client, touched: TouchedKeys, ledger: CopyLedger): Outdate {
  return async (relations) => {
    for (const relation of relations) {
      await touched.invalidate(client, relation.id, "was altered");
      await ledger.voidOf(client, relation);
    }
  };
}

export async function withOldLabels(
  client: Client,
  relations: readonly Relation[],
  types: Parameters<OnAmbiguousLabels>[0],
  targetOf: (relation: Relation) => TargetName,
): Promise<readonly Relation[]> {
  const found: Relation[] = [];
  for (const relation of relations) {
    const table = await readTargetTable(client, targetOf(relation));
    if (table && holdsOldLabels(table, relation, types)) found.push(relation);
  }
  return found;
}
