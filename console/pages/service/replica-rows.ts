// The replicas as the table shows them. Pure.

import type { Replica, ReplicaList } from "../../../src/connector/service/service-report.ts";

export interface ReplicaRow {
  readonly replica: Replica;
  /** It answers the console. */
  readonly isOurs: boolean;
  /** It lives, and is of another version than the one that answers. */
  readonly isOtherVersion: boolean;
}

/** Those that live come first. */
export function replicaRows({ replicas, this: ours }: ReplicaList): ReplicaRow[] {
  const version = replicas.find(({ id }) => id === ours)?.version;
  return replicas
    .map((replica) => ({
      replica,
      isOurs: replica.id === ours,
      isOtherVersion: replica.alive && version !== undefined && replica.version !== version,
    }))
    .sort((a, b) => Number(b.replica.alive) - Number(a.replica.alive));
}
