// Decides whether a connector streams changes or only makes copies.

import type { ConnectorConfig } from "../connector.ts";

/** Whether the connector copies everything, once or on a schedule, and streams no changes. */
export function copiesInRounds({ source }: Pick<ConnectorConfig, "source">): boolean {
  return source.postgres?.replication_type.snapshot !== undefined;
}
