// The letters by which the catalog and pgoutput denote a table's replica identity.
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
