// Tables of the source that are gone, or have another name, while another has theirs: what still comes of them is not for its rows.

import type { Relation } from "../../change/relation.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import type { HeldChanges } from "./held-changes.ts";

/** The rows under the relation's name are another table's, or will be with the copy of it that is being made beside the stream. */
export function isReplaced(
  relation: Relation,
  { ledger, held }: { readonly ledger: CopyLedger; readonly held: HeldChanges },
): boolean {
  return ledger.isReplaced(relation) || (held.isNameTaken(relation) && !ledger.holds(relation));
}
