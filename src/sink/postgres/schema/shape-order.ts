// Decides whether the shape that a table at the sink has followed is the one of the rows that come, or one from before it; and
// says so where it cannot be known. Pure.

import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { hasSameKey, isFollowed, type ShapeRecord } from "../bookkeeping/shape-ledger.ts";

/**
 * Whether the table has the relation's shape. A guess counts as that only where nothing else can be meant: the table has that
 * shape still. `now`: the source's table at the last look.
 */
export function isAsFollowed(shape: ShapeRecord, relation: Relation, now: Relation | null): boolean {
  return isFollowed(shape, relation) && !(relation.isGuess && now && !isFollowed(shape, now));
}

/** Whether the relation, which is not as followed, is known to be a later shape than the table's. `at`: its rows' commit record. */
export function isKnownToFollow(shape: ShapeRecord, relation: Relation, at: Lsn): boolean {
  // Under identity full the stream does not tell when the key changed.
  const isKeyUnclear = relation.replicaIdentity === "full" && !hasSameKey(shape, relation);
  return at >= shape.since && !relation.isGuess && !isKeyUnclear;
}

/** Without a copy that they could be compared with: of a table that the source has dropped, and that was copied before. */
export function changesFromBefore(relation: Relation): MillraceError {
  return new MillraceError(
    "sink_rejected_rows",
    `Changes of ${qualifiedName(relation)} from before it was altered come again, and no copy of it is held.`,
  );
}

/** Where no copy is held: the guess is followed, and somebody is to know. */
export function columnsGuessed(relation: Relation): string {
  return (
    `Table ${qualifiedName(relation)} was altered several times while the stream was behind: its columns were guessed. ` +
    "Create a Snapshot task for this table to be sure."
  );
}
