// Findings about the replicas of an installation, and about who holds a connector. Pure.

import { type Finding, fine } from "../connector/service/diagnosis.ts";

/** What there is of a replica, as it was read last. */
export interface ExaminedReplica {
  readonly id: string;
  readonly host: string;
  readonly version: string;
  readonly weight: number;
  readonly isAlive: boolean;
  readonly seenAt: Date;
  /** What it says is wrong with it; null: nothing. */
  readonly trouble: string | null;
}

export interface ExaminedInstallation {
  readonly replicas: readonly ExaminedReplica[];
  /** Connectors that nobody holds. */
  readonly free: readonly {
    readonly connectorId: string;
    /** It is to run. */
    readonly active: boolean;
    readonly freeMs: number;
  }[];
}

/** A take-over takes less. */
const leftAloneMs = 15_000;

export function replicaFindings({ replicas }: ExaminedInstallation, now: Date): Finding[] {
  const living = replicas.filter(({ isAlive }) => isAlive);
  const found = [
    ...replicas.filter(({ isAlive }) => !isAlive).map((replica) => deadFinding(replica, now)),
    ...versionFindings(living),
    ...weightFindings(living),
    ...living.flatMap(({ id, trouble }) =>
      trouble === null ? [] : [warning(`Replica ${id} says of itself: ${trouble}`)],
    ),
  ];
  if (found.length > 0) return found;
  const [only] = living;
  if (living.length <= 1) return [fine("replicas", `There is one replica${only ? `, ${only.id}` : ""}.`)];
  return [fine("replicas", `All ${living.length} replicas live, and are of version ${only?.version}.`)];
}

/** Whether a connector that is to run has found nobody who runs it. */
export function holderFindings(connectorId: string, { free }: ExaminedInstallation): Finding[] {
  const lease = free.find((one) => one.connectorId === connectorId);
  if (!lease?.active || lease.freeMs < leftAloneMs) return [];
  const finding =
    `No replica has run it for ${Math.round(lease.freeMs / 1000)} s, though it is to run. A replica whose MILLRACE_REPLICA_WEIGHT is 0 ` +
    "takes none; the log of the others says why they do not.";
  return [{ about: "replicas", severity: "failed", finding, commands: [] }];
}

function deadFinding({ id, host, seenAt }: ExaminedReplica, now: Date): Finding {
  const seconds = Math.max(0, Math.round((now.getTime() - seenAt.getTime()) / 1000));
  return warning(
    `Replica ${id} on ${host} has given no sign of life for ${seconds} s. The others take over what it held. If it is not to be gone, ` +
      "start it again; else it is forgotten by itself.",
  );
}

function versionFindings(living: readonly ExaminedReplica[]): Finding[] {
  const byVersion = Map.groupBy(living, ({ version }) => version);
  if (byVersion.size <= 1) return [];
  const versions = [...byVersion].map(([version, of]) => `${version} (${of.map(({ id }) => id).join(", ")})`);
  return [
    warning(
      `Replicas are of several versions: ${versions.join("; ")}. Two neighbouring versions work together while one takes the place of the ` +
        "other; bring the rest to the same version.",
    ),
  ];
}

function weightFindings(living: readonly ExaminedReplica[]): Finding[] {
  if (living.length === 0 || living.some(({ weight }) => weight > 0)) return [];
  const finding =
    "The MILLRACE_REPLICA_WEIGHT of every replica that lives is 0: none runs connectors. Start one with a weight above 0.";
  return [{ about: "replicas", severity: "failed", finding, commands: [] }];
}

function warning(finding: string): Finding {
  return { about: "replicas", severity: "warning", finding, commands: [] };
}
