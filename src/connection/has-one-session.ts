// Whether a server is to be reached by one session at a time.

import type { PostgresConnection } from "../connector/config/connection.ts";

/** Who asks has that session: there is none beside it, not even to look after it by. */
export function hasOneSession({ max_pool_size }: Pick<PostgresConnection, "max_pool_size">): boolean {
  return max_pool_size === 1;
}
