// What Debezium Server is told: what it must be, and what makes it fast. All else is as it is by default.
// https://debezium.io/documentation/reference/3.0/operations/debezium-server.html

import type { ConnectionSettings } from "../../src/demo/postgres-server.ts";

export interface DebeziumRequest {
  readonly source: ConnectionSettings;
  readonly brokers: readonly string[];
  /** Of its topics. */
  readonly prefix: string;
  readonly slot: string;
  readonly publication: string;
  readonly offsetsFile: string;
  /** `initial` copies what is there, `no_data` begins with the stream. */
  readonly snapshotMode: "initial" | "no_data";
  /** For a low latency, not for a backlog. */
  readonly isPrompt: boolean;
}

export function debeziumProperties(request: DebeziumRequest): Readonly<Record<string, string | number>> {
  const { host, port, user, password, database } = request.source;
  return {
    "quarkus.log.console.json": "false",
    "quarkus.banner.enabled": "false",
    // Its health page; any free port.
    "quarkus.http.port": 0,
    "debezium.source.connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "debezium.source.plugin.name": "pgoutput",
    "debezium.source.slot.name": request.slot,
    "debezium.source.publication.name": request.publication,
    "debezium.source.database.hostname": host,
    "debezium.source.database.port": port,
    "debezium.source.database.user": user,
    "debezium.source.database.password": password,
    "debezium.source.database.dbname": database,
    "debezium.source.topic.prefix": request.prefix,
    "debezium.source.snapshot.mode": request.snapshotMode,
    "debezium.source.offset.storage.file.filename": request.offsetsFile,
    ...speed(request.isPrompt),
    // As our Debezium form: JSON without a schema in each message.
    "debezium.format.key": "json",
    "debezium.format.value": "json",
    "debezium.format.key.schemas.enable": "false",
    "debezium.format.value.schemas.enable": "false",
    "debezium.sink.type": "kafka",
    "debezium.sink.kafka.producer.bootstrap.servers": request.brokers.join(","),
    "debezium.sink.kafka.producer.key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "debezium.sink.kafka.producer.value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
  };
}

function speed(isPrompt: boolean): Readonly<Record<string, string | number>> {
  return {
    // Four times the defaults of 2,048 and 8,192: it waits for the brokers after each batch.
    "debezium.source.max.batch.size": 8_192,
    "debezium.source.max.queue.size": 32_768,
    // By default it waits up to half a second for a batch that is not full.
    "debezium.source.poll.interval.ms": isPrompt ? 5 : 500,
    // As millrace's producer.
    "debezium.sink.kafka.producer.linger.ms": isPrompt ? 5 : 100,
    "debezium.sink.kafka.producer.batch.size": 1_000_000,
    "debezium.sink.kafka.producer.compression.type": "lz4",
    "debezium.sink.kafka.producer.acks": "all",
  };
}
