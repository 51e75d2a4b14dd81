// Where a connector reads and writes, in a few words. Pure.

import type { GivenConnector } from "../../src/connector/connector.ts";

type Config = GivenConnector["connector"];

export function sourceName({ source }: Config): string {
  return source.postgres ? databaseName(source.postgres.connection) : "";
}

export function sinkKind({ sink }: Config): "Postgres" | "Webhook" | "Kafka" {
  if (sink.kafka) return "Kafka";
  return sink.webhook ? "Webhook" : "Postgres";
}

export function sinkName({ sink }: Config): string {
  if (sink.kafka) return brokerNames(sink.kafka.connection.brokers);
  if (sink.webhook) return withoutCredentials(sink.webhook.url);
  return sink.postgres ? databaseName(sink.postgres.connection) : "";
}

function brokerNames(brokers: readonly string[]): string {
  const [first = "", ...others] = brokers;
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

type Connection = NonNullable<Config["source"]["postgres"]>["connection"];

function databaseName({ host, port = 5432, database }: Connection): string {
  return `${database} on ${port === 5432 ? host : `${host}:${port}`}`;
}

export function withoutCredentials(url: string): string {
  return url.replace(/^(https?:\/\/)[^/@]*@/, "$1");
}
