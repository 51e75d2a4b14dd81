// A connector in full form for tests that store one: real enough to be run, small enough to read.

import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import { slotName } from "../../../src/connector/connector-id.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import { resolveConnector, resolveGiven } from "../../../src/connector/request/resolve-connector.ts";
import { noRound, type StoredConnector } from "../../../src/state/stores/connector-store.ts";

export const plantedSecret = "planted-secret-7c1f";

export function sampleRequest(): ConnectorRequest {
  const connection = {
    host: "127.0.0.1",
    port: 1,
    user: "postgres",
    password: plantedSecret,
    database: "shop",
  };
  return {
    id: "ignored",
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { postgres: { connection: { ...connection, database: "copy" } } },
  };
}

export function sampleWebhookRequest(): ConnectorRequest {
  return {
    ...sampleRequest(),
    sink: {
      webhook: {
        url: "http://127.0.0.1:1",
        path_template: "{schema}/{table}",
        auth: { bearer: { token: plantedSecret } },
      },
    },
  };
}

export function sampleConfig(id: string, request = sampleRequest()): ConnectorConfig {
  return resolveConnector(request, { id, stored: null });
}

/** As the state keeps it. */
export function storedConnector(id: string, request = sampleRequest()): StoredConnector {
  const given = resolveGiven(request, { id, stored: null });
  return {
    id,
    given,
    config: completeConnector(given, id),
    slotName: slotName(id),
    stopped: false,
    deletion: null,
    cleanup: null,
    initialized: false,
    resumes: false,
    ...noRound,
    runId: Bun.randomUUIDv7(),
    createdAt: new Date("2026-01-02T03:04:05.678Z"),
  };
}
