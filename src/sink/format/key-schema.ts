// The Connect schema of a message's key: the key's columns, in its order, by Debezium's naming.

import type { Relation } from "../../change/relation.ts";
import type { ConnectSchema } from "./connect-schema.ts";

/** `columns`: schemas of the relation's columns; `prefix`: the connector's name. */
export function keySchema(
  prefix: string,
  relation: Relation,
  columns: readonly ConnectSchema[],
): ConnectSchema {
  return {
    type: "struct",
    fields: relation.key.map((index) => ({
      ...columns[index]!,
      optional: isKeyMissing(relation),
      field: relation.columns[index]!.name,
    })),
    optional: false,
    name: `${prefix}.${relation.schema}.${relation.name}.Key`,
  };
}

/** With REPLICA IDENTITY USING INDEX the old row holds that index's columns, and not the primary key: a DELETE may have no value for it. */
export function isKeyMissing({ replicaIdentity }: Relation): boolean {
  return replicaIdentity === "index";
}
