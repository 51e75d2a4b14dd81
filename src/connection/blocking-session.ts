// Describes another session that blocks ours, for people. It never quotes a query: a query may contain values.

export interface BlockingSession {
  readonly pid: number;
  readonly user: string | null;
  readonly isSameUser: boolean;
  readonly applicationName: string | null;
  /** Null on a Unix socket, and where the role lacks the privilege to see it. */
  readonly address: string | null;
}

/** The columns of a BlockingSession but its `pid`, from alias `a`: a row of pg_stat_activity, or none. */
export const sessionColumns = `a.usename as "user", coalesce(a.usename = current_user, false) as "isSameUser",
  a.application_name as "applicationName", host(a.client_addr) || ':' || a.client_port::text as address`;

export function describeSession({ pid, user, applicationName, address }: BlockingSession): string {
  return describeProcess(pid, [
    applicationName && `application ${applicationName}`,
    user && `user ${user}`,
    address && `from ${address}`,
  ]);
}

/** `process 12 (psql, idle)`, with those of `facts` that are known. */
export function describeProcess(pid: number, facts: readonly (string | null)[]): string {
  const known = facts.filter((fact) => fact !== null && fact !== "");
  return `process ${pid}${known.length > 0 ? ` (${known.join(", ")})` : ""}`;
}
