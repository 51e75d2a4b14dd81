// Decides whether a table can be copied incrementally, beside the stream. Otherwise the stream waits for its copy. docs/copies-and-tasks.md
// lists those tables.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { isKeyed, keyNames, type Relation, type TableShape } from "../../../change/relation.ts";
import { takesBinary } from "../schema/binary-fit.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import {
  hasOtherUniqueIndex,
  keyIndexOf,
  readTargetTable,
  type TargetTable,
} from "../schema/target-table.ts";
import type { SinkTables } from "../sink-tables.ts";

/**
 * Whether the table has a key, and the sink applies all its changes now or will from here on. `at`: the stream's position, for a first copy; null:
 * for another one.
 */
export function isEligible(tables: SinkTables, { relation, coverage }: TableShape, at: Lsn | null): boolean {
  const { setAside, incomplete, shapes } = tables;
  if (!isKeyed(relation) || setAside.has(relation.id) || incomplete.has(relation.id)) return false;
  // Otherwise the stream may still bring rows of an earlier shape: also where an earlier copy, which is void, brought this one.
  if (at !== null) {
    const shape = shapes.of(relation);
    return shape === null || (shape.since <= at && tables.isReadyFor(relation));
  }
  return coverage?.isUnpublished !== true && tables.isReadyFor(relation) && isUpToDate(tables, relation);
}

/** Whether the table has a valid copy, and the sink applies all of its changes. */
export function isUpToDate(
  { ledger, setAside }: Pick<SinkTables, "ledger" | "setAside">,
  relation: Relation,
): boolean {
  return ledger.holds(relation) && !setAside.has(relation.id) && !ledger.isReplaced(relation);
}

/**
 * The target and the form that its rows must have; null where the target does not take rows in any order. Such are targets that several
 * source tables share, that have foreign keys, or that have a unique index beside the key: they need all rows in one transaction.
 */
export async function readChunkTarget(
  client: Client,
  naming: TargetNaming,
  relation: Relation,
): Promise<{ readonly target: TargetTable; readonly form: TupleForm } | null> {
  if (naming.isShared(relation)) return null;
  const target = await readTargetTable(client, naming.target(relation));
  if (target === null || target.isReferred || target.refersTo.length > 0) return null;
  if (!isWrittenByKey(target, relation) || (await hasOtherUniqueIndex(client, target, relation))) return null;
  const form = chunkForm(target, relation);
  return form && { target, form };
}

/** Whether the relation's key finds the target's rows, and all columns can be written. */
function isWrittenByKey(target: TargetTable, relation: Relation): boolean {
  const key = keyNames(relation);
  const index = keyIndexOf(target, relation);
  const isExact = index?.columns.length === key.length && index.columns.every(({ isLoose }) => !isLoose);
  const isWritable = relation.columns.every(({ name }) => {
    const column = target.columns.find((other) => other.name === name);
    return column && !column.generated && (key.includes(name) ? column.notNull : !column.isFixed);
  });
  return isExact && isWritable;
}

/** In which chunks come. Null: a user-defined type may refuse text, which only a copy of the whole table can report with its row. */
export function chunkForm(target: TargetTable, relation: Relation): TupleForm | null {
  if (takesBinary(target, relation)) return "binary";
  return relation.columns.some(({ typeDefinitions }) => typeDefinitions) ? null : "text";
}
