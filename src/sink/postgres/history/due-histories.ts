// Decides which histories can be compared with their tables now, and as of which LSN. Pure.

import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import type { IncompleteRows } from "../bookkeeping/incomplete-rows.ts";
import type { SetAsideTables } from "../bookkeeping/set-aside-tables.ts";
import { isFollowed, type ShapeLedger } from "../bookkeeping/shape-ledger.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { Histories } from "./histories.ts";

/** What is known of the tables. */
interface KnownTables {
  readonly ledger: CopyLedger;
  readonly shapes: ShapeLedger;
  readonly setAside: SetAsideTables;
  readonly incomplete: IncompleteRows;
  readonly touched: TouchedKeys;
  readonly histories: Histories;
}

export interface DueHistory {
  readonly table: TableShape;
  /** The table's rows are as of it. */
  readonly lsn: Lsn;
}

/** `at`: the stream's position. A copy may be ahead of it. */
export function dueHistories(tables: KnownTables, at: Lsn, hasStream: boolean): readonly DueHistory[] {
  return tables.histories.unreconciled.flatMap((table) => {
    const { relation } = table;
    const copy = tables.ledger.stateOf(relation);
    if (copy.kind === "none" || tables.setAside.has(relation.id)) return [];
    if (!isFollowed(tables.shapes.of(relation), relation)) return [];
    if (tables.incomplete.has(relation.id) || tables.touched.get(relation.id)?.idleSinceMs === null)
      return [];
    // Changes from before its point are yet to come: the history gets them, or begins behind them.
    if (hasStream && copy.point > at) return [];
    return [{ table, lsn: copy.point > at ? copy.point : at }];
  });
}

/** The LSN at which all copies that wait for the stream are exact; null: none does. */
export function awaitedByHistories({ histories, ledger }: KnownTables, at: Lsn): Lsn | null {
  let awaited: Lsn = zeroLsn;
  for (const { relation } of histories.unreconciled) {
    const copy = ledger.stateOf(relation);
    // It is proved at no place of the log that is known before.
    if (ledger.isUnproved(relation)) continue;
    if (copy.kind !== "none" && copy.point > awaited) awaited = copy.point;
  }
  return awaited > at ? awaited : null;
}

/** Throws `sink_schema_mismatch` where a table has a history and shares its target: nobody could tell whose rows are whose. */
export function requireUnmerged(
  tables: readonly TableShape[],
  naming: TargetNaming,
  histories: Pick<Histories, "isAsked">,
): void {
  const merged = tables.find(({ relation }) => histories.isAsked(relation) && naming.isShared(relation));
  if (!merged) return;
  throw new MillraceError(
    "sink_schema_mismatch",
    `Table ${qualifiedName(merged.relation)} has history_enabled, and is merged into ${naming.sharedAs(merged.relation)} with others: a history ` +
      "is of one table. Switch it off, or leave the others out of the catalog.",
  );
}
