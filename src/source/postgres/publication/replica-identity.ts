// The letters that the catalog and pgoutput have for a table's replica identity.
// https://www.postgresql.org/docs/current/catalog-pg-class.html

import type { ReplicaIdentity } from "../../../change/relation.ts";

const identities: Readonly<Record<string, ReplicaIdentity>> = {
  d: "default",
  n: "nothing",
  f: "full",
  i: "index",
};

export function replicaIdentityOf(letter: string): ReplicaIdentity {
  return identities[letter] ?? "default";
}
