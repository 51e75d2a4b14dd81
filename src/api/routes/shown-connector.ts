// A stored connector as responses show it, without secrets.

import type { ConnectorWithStatus } from "../../connector/connector.ts";
import { redactConnector } from "../../connector/secrets.ts";

export function shownConnector(stored: ConnectorWithStatus): ConnectorWithStatus {
  return { ...stored, connector: redactConnector(stored.connector) };
}
