// The error of a transaction that came in pieces, of which the earlier ones were rolled back when a table was set aside.

import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export function beginsAgainWithout(relation: Relation | null): MillraceError {
  const table = relation ? qualifiedName(relation) : "a table";
  return new MillraceError(
    "table_changed",
    `The transaction begins again without ${table}, which is set aside.`,
  );
}
