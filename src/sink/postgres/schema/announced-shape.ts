// Makes a table's shape of what the stream tells, for a table that no look at the source has found. Looking is the source's.

import type { Relation, TableShape } from "../../../change/relation.ts";

/** What can be told of a table that the stream announced and the run did not know. */
export function announcedShape(relation: Relation): TableShape {
  const key = relation.key.map((i) => relation.columns[i]!.name);
  return {
    relation,
    primaryKey: key,
    notNull: key,
    isPartitioned: false,
    estimatedRows: 0,
    estimatedBytes: 0,
    storage: "",
  };
}
