// Whether a connector may use only one session on a server.

import type { PostgresConnection } from "../connector/config/connection.ts";

/** Then there is no second session, not even to watch the first. */
export function hasOneSession({ max_pool_size }: Pick<PostgresConnection, "max_pool_size">): boolean {
  return max_pool_size === 1;
}
