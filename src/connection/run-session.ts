// The names under which a run's sessions are known at a server, and what a later run reads in them: whose a session is, and
// whether it may be ended. https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-APPLICATION-NAME

import type { Term } from "../connector/term.ts";
import type { BlockingSession } from "./blocking-session.ts";

/** Whose a session is. */
export interface RunOwner {
  /** Names the installation that the connector belongs to. Without it no session can be recognized. */
  readonly owner?: string | undefined;
  readonly term?: Term | undefined;
}

/**
 * - `older`: of a lower term, or of a replica that knows no terms. Its lease has ended.
 * - `same`: of an earlier attempt of this term.
 * - `newer`: of a higher term. It stays, and this run ends.
 * - `foreign`: of anybody else.
 */
export type SessionStanding = "older" | "same" | "newer" | "foreign";

/** The server cuts off what is longer. */
const nameBytes = 63;

/** An application_name that bears owner and term behind `name`, which is cut off where all of it is too long. */
export function sessionName(name: string, { owner, term = null }: RunOwner): string {
  if (owner === undefined) return name;
  const end = term === null ? ` ${owner}` : ` ${owner} t${term}`;
  return name.slice(0, nameBytes - end.length) + end;
}

/** What the session under this name is to the run. */
export function sessionStanding(
  { applicationName, isSameUser }: Pick<BlockingSession, "applicationName" | "isSameUser">,
  name: string,
  { owner, term = null }: RunOwner,
): SessionStanding {
  if (owner === undefined || applicationName === null) return "foreign";
  const [, digits] = / t(\d+)$/.exec(applicationName) ?? [];
  const other = digits === undefined ? null : Number(digits);
  if (applicationName !== sessionName(name, { owner, term: other })) return "foreign";
  if (other === term) return isSameUser ? "same" : "foreign";
  // Without a term of its own, a run cannot tell.
  if (term === null) return "foreign";
  if (other !== null && other > term) return "newer";
  return isSameUser ? "older" : "foreign";
}
