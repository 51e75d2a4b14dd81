// Adds to a connection failure which side and which host it concerns, and what to do if it is not retried. A status
// shows that; an API error never does. Pure.

import { bastionsOf } from "../../connector/config/bastions.ts";
import type { PostgresConnection } from "../../connector/config/connection.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { listedNames } from "../../errors/listed-names.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

/** Failures of the connection itself. */
const sides: Readonly<Partial<Record<ErrorCode, "source" | "sink">>> = {
  source_unreachable: "source",
  source_timeout: "source",
  source_authentication_failed: "source",
  source_connection_lost: "source",
  sink_unreachable: "sink",
  sink_authentication_failed: "sink",
  sink_connection_lost: "sink",
};

const toldBrokers = 3;
const remedy = " Put that right, then send the command Start.";

/**
 * `error` with side, host and port before its text, and the remedy behind it, if it is about the connection to a
 * Postgres server or to Kafka.
 */
export function locateFailure(error: MillraceError, { source, sink }: ConnectorConfig): MillraceError {
  const side = sides[error.code];
  if (side === undefined) return error;
  const connection = (side === "source" ? source : sink).postgres?.connection;
  const brokers = side === "sink" ? sink.kafka?.connection.brokers : undefined;
  const address = connection ? addressOf(connection) : brokers && listedNames(brokers, toldBrokers);
  if (address === undefined) return error;
  const text = `${side === "source" ? "Source" : "Sink"} ${address}: ${error.message}`;
  const isForGood = error.retry === "permanent";
  return new MillraceError(error.code, isForGood ? text + remedy : text, { cause: error.cause });
}

function addressOf({ host, port, tunnel }: PostgresConnection): string {
  const address = hostAndPort(host, port);
  if (!tunnel?.ssh) return address;
  const bastions = bastionsOf(tunnel.ssh).map((bastion) => hostAndPort(bastion.host, bastion.port));
  return `${address} through ${bastions.join(" or ")}`;
}

function hostAndPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
