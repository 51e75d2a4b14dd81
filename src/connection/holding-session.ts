// Another session that holds what ours waits for: what is known of it, and what people are told. No query text: it may hold values.

export interface HoldingSession {
  readonly pid: number;
  readonly user: string | null;
  readonly isSameUser: boolean;
  readonly applicationName: string | null;
  /** Null on a Unix socket, and where the role may not see it. */
  readonly address: string | null;
}

/** All but `pid`, of `a`: its row of pg_stat_activity, or none. */
export const sessionColumns = `a.usename as "user", coalesce(a.usename = current_user, false) as "isSameUser",
  a.application_name as "applicationName", host(a.client_addr) || ':' || a.client_port as address`;

export function describeSession({ pid, user, applicationName, address }: HoldingSession): string {
  return describeProcess(pid, [
    applicationName && `application ${applicationName}`,
    user && `user ${user}`,
    address && `from ${address}`,
  ]);
}

/** `process 12 (psql, idle)`, with as much of `facts` as there is. */
export function describeProcess(pid: number, facts: readonly (string | null)[]): string {
  const known = facts.filter((fact) => fact !== null && fact !== "");
  return `process ${pid}${known.length > 0 ? ` (${known.join(", ")})` : ""}`;
}
