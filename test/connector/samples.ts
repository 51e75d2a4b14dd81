// Sample connectors for tests.

import type { ConnectorConfig, ConnectorRequest } from "../../src/connector/connector.ts";
import { resolveConnector } from "../../src/connector/request/resolve-connector.ts";
import { testServerCertificate, testServerKey } from "../support/servers/tls-certificates.ts";

/** A certificate and its key, as a client has them. */
export const clientCertificate = { ssl_cert: testServerCertificate, ssl_key: testServerKey } as const;

export const connectionSample = (overrides: object = {}) => ({
  host: "db.internal",
  user: "replicator",
  password: "source-password",
  database: "shop",
  ...overrides,
});

export const sourceSample = (overrides: object = {}) => ({
  postgres: { connection: connectionSample(), replication_type: { logical_replication: {} }, ...overrides },
});

export const postgresSinkSample = () => ({
  postgres: { connection: connectionSample({ database: "warehouse", password: "sink-password" }) },
});

export const webhookSinkSample = (overrides: object = {}) => ({
  webhook: { url: "https://hooks.example.com", ...overrides },
});

export const kafkaSinkSample = (overrides: object = {}) => ({
  kafka: {
    connection: { brokers: ["kafka.internal:9092"] },
    format: { native: {} },
    topic_options: {},
    ...overrides,
  },
});

export const requestSample = (overrides: object = {}): ConnectorRequest => ({
  id: "orders",
  source: sourceSample(),
  sink: postgresSinkSample(),
  ...overrides,
});

export function configSample(overrides: object = {}): ConnectorConfig {
  return resolveConnector(requestSample(overrides), { id: "orders", stored: null });
}
