// The failure of a copy that is to begin again, for all sinks.

import { qualifiedName, type Relation } from "../change/relation.ts";
import { MillraceError } from "../errors/millrace-error.ts";

/** `reason`: the rest of a sentence that begins with the table's name. */
export function copyInvalidated(relation: Relation, reason: string): MillraceError {
  const text = `Table ${qualifiedName(relation)} ${reason} while it was copied: the copy begins again.`;
  return new MillraceError("table_changed", text);
}
