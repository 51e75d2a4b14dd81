// Tables of the source that are gone, or have another name, while another has theirs: what still comes of them is not for its rows.

import type { Relation } from "../../../change/relation.ts";
import type { HeldChanges } from "../copy/held-changes.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import type { ShapeLedger } from "./shape-ledger.ts";

/** What tells whose the rows under a name are. */
export interface TablesByName {
  readonly ledger: CopyLedger;
  readonly held: HeldChanges;
  readonly shapes: ShapeLedger;
}

/**
 * The rows under the relation's name are another table's, or will be with the copy of it that is being made beside the stream: also
 * under a name that the relation had before and has at the sink still, from which it must not be renamed away under that copy.
 */
export function isReplaced(relation: Relation, { ledger, held, shapes }: TablesByName): boolean {
  if (ledger.isReplaced(relation)) return true;
  const names = [relation, shapes.of(relation) ?? relation];
  const isTaken = names.some(({ schema, name }) => held.isNameTaken({ id: relation.id, schema, name }));
  return isTaken && !ledger.holds(relation);
}
