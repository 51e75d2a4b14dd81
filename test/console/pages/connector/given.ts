// Connectors as the API shows them, for tests of the console.

import { type KnownConnector, knownConnector } from "../../../../console/connector/known-connector.ts";
import type { ConnectorStatus } from "../../../../src/connector/status.ts";

interface Given {
  readonly status?: ConnectorStatus;
  readonly id?: string;
  readonly copiesOnly?: boolean;
  readonly skipsCopies?: boolean;
  readonly toWebhook?: boolean;
}

const streaming: ConnectorStatus = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };

export function given(options: Given = {}): KnownConnector {
  const { status = streaming, id = "orders", copiesOnly, skipsCopies, toWebhook } = options;
  const connection = { host: "db1", port: 5432, user: "u", password: "***", database: "shop" };
  const replication_type = copiesOnly
    ? { snapshot: {} }
    : { logical_replication: { ...(skipsCopies && { skip_snapshots: true }) } };
  const webhook = { url: "https://example.com/in", format: { native: {} } };
  const sink = toWebhook ? { webhook } : { postgres: { connection } };
  const entry = {
    connector: { id, source: { postgres: { connection, replication_type } }, sink },
    status,
    run_id: "019af9a0-0000-7000-8000-000000000000",
    created_at: "2026-01-01T00:00:00.000Z",
  };
  return knownConnector(entry, undefined);
}
