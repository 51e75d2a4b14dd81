// The webhook sink of a connector that has one.

import type { WebhookSinkConfig } from "../../connector/config/webhook-config.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

/** Throws `internal` for a connector of another kind: none gets here. */
export function configuredSink(connector: Pick<ConnectorConfig, "sink">): WebhookSinkConfig {
  const config = connector.sink.webhook;
  if (!config) throw new MillraceError("internal", "the connector's sink is not a webhook");
  return config;
}
