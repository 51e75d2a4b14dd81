// Decides whether rows have the shape that their target follows, a later one, or an earlier one. Reports where that cannot be known. Pure.

import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { hasSameKey, isFollowed, type ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { type FollowedColumn, followedColumns } from "./migration/table-migration.ts";

/**
 * Whether the target follows the relation's shape. A guessed relation counts only if the source's table still has that shape, and a copy did
 * not bring it ahead of these rows: they may have an earlier column of the same name. `now`: the source's table as of the last refresh. `at`: the
 * commit LSN of the rows.
 */
export function isAsFollowed(shape: ShapeRecord, relation: Relation, now: Relation | null, at: Lsn): boolean {
  const isUnclear = relation.isGuess && (at < shape.since || (now !== null && !isFollowed(shape, now)));
  return isFollowed(shape, relation) && !isUnclear;
}

/** Whether a relation of another shape is known to be later than the target's. `at`: the commit LSN of its rows. */
export function isKnownToFollow(shape: ShapeRecord, relation: Relation, at: Lsn): boolean {
  // Under REPLICA IDENTITY FULL the stream does not show that the key changed.
  const isKeyUnclear = relation.replicaIdentity === "full" && !hasSameKey(shape, relation);
  return at >= shape.since && !relation.isGuess && !isKeyUnclear;
}

/** Whether the target, which follows another shape, has the relation's columns and key as they are: it takes rows of the relation, too. */
export function hasAllOf(shape: ShapeRecord, relation: Relation): boolean {
  const isThere = ({ number, name, type }: FollowedColumn) =>
    shape.columns.some((other) => other.number === number && other.name === name && other.type === type);
  const isKnown = qualifiedName(shape) === qualifiedName(relation) && !relation.isGuess;
  return isKnown && hasSameKey(shape, relation) && followedColumns(relation).every(isThere);
}

/** Changes from before an alteration come again, and there is no valid copy to compare them with: the source has dropped the table. */
export function changesFromBefore(relation: Relation): MillraceError {
  return new MillraceError(
    "sink_rejected_rows",
    `Changes of ${qualifiedName(relation)} from before it was altered come again, and no copy of it is held. ` +
      "Send the command ReInitialize to begin anew.",
  );
}

/** Without a copy the guess is followed, and the user is warned. */
export function columnsGuessed(relation: Relation): string {
  return (
    `Table ${qualifiedName(relation)} was altered several times while the stream was behind: its columns were guessed. ` +
    "Create a Snapshot task for this table to be sure."
  );
}
