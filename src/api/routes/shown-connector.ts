// A connector as responses show it, without secrets.

import type { ConnectorWithStatus, GivenConnector } from "../../connector/connector.ts";
import { redactConnector } from "../../connector/secrets.ts";

export function shownConnector<T extends ConnectorWithStatus | GivenConnector>(stored: T): T {
  return { ...stored, connector: redactConnector(stored.connector) };
}
