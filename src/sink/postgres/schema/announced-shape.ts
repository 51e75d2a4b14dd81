// Makes a table's shape from the stream's relation message alone, for a table that the source's catalog reader has not found.

import { keyNames, type Relation, type TableShape } from "../../../change/relation.ts";

/** The shape of a table that the stream announced and the run did not know. */
export function announcedShape(relation: Relation): TableShape {
  const key = keyNames(relation);
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
