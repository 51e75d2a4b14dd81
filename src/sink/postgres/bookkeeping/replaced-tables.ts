// Recognizes changes of a table whose name another table has by now: they must not reach that table's rows.

import type { Relation } from "../../../change/relation.ts";
import type { CopiesUnderWay } from "./copies-under-way.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import type { ShapeLedger } from "./shape-ledger.ts";

/** What is needed to know which table the rows under a name belong to. */
export interface TablesByName {
  readonly ledger: CopyLedger;
  readonly underWay: CopiesUnderWay;
  readonly shapes: ShapeLedger;
}

/**
 * Whether another table has the relation's name at the sink, or an incremental copy is about to bring it there. The name that the relation
 * still has at the sink counts too: its target must not be renamed while another table is copied into it.
 */
export function isReplaced(relation: Relation, { ledger, underWay, shapes }: TablesByName): boolean {
  if (ledger.isReplaced(relation)) return true;
  const names = [relation, shapes.of(relation) ?? relation];
  const isTaken = names.some(({ schema, name }) => underWay.isNameTaken({ id: relation.id, schema, name }));
  return isTaken && !ledger.holds(relation);
}
