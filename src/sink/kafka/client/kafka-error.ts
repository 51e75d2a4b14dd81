// What an error of the client or of a broker means for the sink: whether to try again, and which code and words the status has.

import { GenericError, MultipleErrors, protocolErrors, protocolErrorsCodesById } from "@platformatic/kafka";
import { plainLine, shortened } from "../../../errors/answer-in-reason.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

/** Makes what a table does not have, by its key. */
function complete(table: object, made: (key: string) => unknown): void {
  Object.setPrototypeOf(table, new Proxy({}, { get: (_, key) => made(String(key)) }));
}

// The client cannot make its error of a code that it has no name for, as newer brokers may have: such a code is named for its number.
complete(protocolErrorsCodesById, (code) => (/^-?\d+$/.test(code) ? `ERROR_${code}` : undefined));
complete(protocolErrors, (id) => {
  const [, code] = /^ERROR_(-?\d+)$/.exec(id) ?? [];
  const message = "a code that millrace does not know.";
  return code === undefined ? undefined : { id, code: Number(code), message, canRetry: false };
});

const names = (list: string): ReadonlySet<string> => new Set(list.split(/\s+/));

/** What errors mean, by their names in the protocol. https://kafka.apache.org/protocol#protocol_error_codes */
const codes: readonly (readonly [ErrorCode, ReadonlySet<string>])[] = [
  [
    "kafka_not_authorized",
    names(`TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
      TRANSACTIONAL_ID_AUTHORIZATION_FAILED`),
  ],
  [
    "sink_authentication_failed",
    names("SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE"),
  ],
  ["kafka_message_too_large", names("MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE")],
  ["kafka_fenced", names("PRODUCER_FENCED INVALID_PRODUCER_EPOCH")],
  [
    "kafka_rejected",
    names(`INVALID_TRANSACTION_TIMEOUT INVALID_TOPIC_EXCEPTION INVALID_PARTITIONS INVALID_CONFIG INVALID_RECORD
      POLICY_VIOLATION UNSUPPORTED_VERSION UNSUPPORTED_COMPRESSION_TYPE`),
  ],
  // A cluster may count the brokers that live: then it passes when they are back.
  ["sink_too_few_brokers", names("INVALID_REPLICATION_FACTOR")],
];

/** After these the same may be asked again. */
const passing =
  names(`NOT_LEADER_OR_FOLLOWER LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION
  NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND REQUEST_TIMED_OUT KAFKA_STORAGE_ERROR FENCED_LEADER_EPOCH
  UNKNOWN_LEADER_EPOCH CONCURRENT_TRANSACTIONS THROTTLING_QUOTA_EXCEEDED COORDINATOR_LOAD_IN_PROGRESS NOT_CONTROLLER`);
const lostCoordinator = names("NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS");

/** A broker whose disk is full gives up the log directory on it, and stops if it has no other. */
export const failedDisk = "See the broker's log: if its disk is full, make room, then restart the broker.";

/** What to do about errors that do not pass by themselves. */
const remedies: Readonly<Record<string, string>> = {
  KAFKA_STORAGE_ERROR: `A log directory of the broker has failed. ${failedDisk}`,
  TOPIC_AUTHORIZATION_FAILED:
    "Allow the user Describe and Write on the topic (Read too on millrace.checkpoints; Create, where it is to be made), then start the connector.",
  CLUSTER_AUTHORIZATION_FAILED:
    "Allow the user Create and IdempotentWrite on the cluster, or make the topics beforehand; then start the connector.",
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    "Allow the user Describe and Write on the transactional_id, then start the connector.",
  SASL_AUTHENTICATION_FAILED: "Check auth: mechanism, username and password.",
  UNSUPPORTED_SASL_MECHANISM: "Set auth.mechanism to one that the brokers take.",
  CONCURRENT_TRANSACTIONS:
    "The brokers have not ended the transaction before yet: one of them may be away. It is asked again.",
  INVALID_TRANSACTION_TIMEOUT:
    "Set transactions.timeout_ms to the brokers' transaction.max.timeout.ms at most.",
  INVALID_RECORD:
    "If the topic is compacted, it takes no message without a key: exclude tables that have none, skip TRUNCATE (skipped_operations), or take " +
    "compact out of the topic's cleanup.policy; then start the connector.",
  INVALID_REPLICATION_FACTOR:
    "Set topic_options.replication_factor to the number of brokers at most, or start brokers that are down. It is tried again.",
};

export function errorName(code: number): string {
  return (protocolErrorsCodesById as Readonly<Record<number, string>>)[code]!;
}

/** A broker's error by its name in the protocol, and the broker's own words if it has any. */
export interface BrokerError {
  readonly id: string;
  readonly message: string;
}

export function brokerErrors(error: unknown): readonly BrokerError[] {
  const all = errorsIn(error).flatMap((each) => {
    if (!(each instanceof GenericError) || !("apiId" in each)) return [];
    const { apiId, serverErrorMessage, message } = each as GenericError & Record<string, unknown>;
    const own = typeof serverErrorMessage === "string" ? serverErrorMessage : "";
    return [{ id: String(apiId), message: own || message }];
  });
  // What was left undone because of another error says nothing.
  const telling = all.filter(({ id }) => id !== "OPERATION_NOT_ATTEMPTED");
  return telling.length > 0 ? telling : all;
}

/** An answer that refuses some topics or partitions, which the client throws, with the rest; null: the error is another one. */
export function answerIn<A>(error: unknown): A | null {
  return error instanceof Error && "response" in error ? ((error.response ?? null) as A | null) : null;
}

/** The answer, whatever it refuses. */
export async function withRefusals<A>(answer: Promise<A>): Promise<A> {
  return await answer.catch((error: unknown) => answerIn<A>(error) ?? Promise.reject(error));
}

/** The error, those that it gathers, and their causes. */
function errorsIn(error: unknown, depth = 0): readonly unknown[] {
  if (!(error instanceof Error) || depth > 10) return [];
  // After many tries of the same the last one is enough.
  const gathered = error instanceof MultipleErrors ? error.errors.slice(-mostGathered) : [];
  return [error, ...[...gathered, error.cause].flatMap((each: unknown) => errorsIn(each, depth + 1))];
}

const mostGathered = 20;

/** The coordinator's other transaction of this id is not over. */
export function isBusyCoordinator(error: unknown): boolean {
  return brokerErrors(error).some(({ id }) => id === "CONCURRENT_TRANSACTIONS");
}

/** The coordinator is elsewhere, away, or not ready. */
export function isLostCoordinator(error: unknown): boolean {
  const broker = brokerErrors(error);
  return broker.length === 0 ? isNetworkError(error) : broker.some(({ id }) => lostCoordinator.has(id));
}

/** Whether the same may be asked again: a broker is away, or something is about to change. */
export function isPassing(error: unknown): boolean {
  if (error instanceof MillraceError) return error.code === "sink_unreachable";
  const broker = brokerErrors(error);
  return broker.length > 0 ? broker.every(({ id }) => passing.has(id)) : isNetworkError(error);
}

/** The connection failed, or nothing was answered in time: what was sent may have arrived. */
export function isNetworkError(error: unknown): boolean {
  if (error instanceof MillraceError) return error.code === "sink_connection_lost";
  return errorsIn(error).some((each) => each instanceof GenericError && each.code === "PLT_KFK_NETWORK");
}

/** The same as an error of millrace. `what`: what was being done, as the end of "Kafka refused to …". */
export function kafkaFailure(error: unknown, what: string): MillraceError {
  if (error instanceof MillraceError) return error;
  const [first] = brokerErrors(error);
  if (first) {
    // What is not known may pass: the run connects anew, and what was not committed is sent again.
    const code = codes.find(([, ids]) => ids.has(first.id))?.[0] ?? "sink_connection_lost";
    const remedy = remedies[first.id];
    const told = `Kafka refused to ${what}: ${first.id}, ${words(first.message)}${remedy ? ` ${remedy}` : ""}`;
    return new MillraceError(code, told, { cause: error });
  }
  const text = words(rootMessage(error));
  if (isAuthentication(error)) {
    const told = `The broker refused the user name or password, or the mechanism: ${text} Check auth.`;
    return new MillraceError("sink_authentication_failed", told, { cause: error });
  }
  return new MillraceError("sink_unreachable", `Kafka did not answer a request to ${what}: ${text}`, {
    cause: error,
  });
}

/** The client also calls it one when a broker gives no answer amid a handshake: that passes. */
function isAuthentication(error: unknown): boolean {
  return errorsIn(error).some(
    (each) => each instanceof GenericError && each.code === "PLT_KFK_AUTHENTICATION" && !isNetworkError(each),
  );
}

/** The innermost cause says most. */
function rootMessage(error: unknown): string {
  if (error instanceof MultipleErrors && error.errors.length > 0) return rootMessage(error.errors.at(-1));
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? rootMessage(error.cause) : error.message;
}

const maxWords = 300;

/** As a sentence, bounded. */
function words(text: string): string {
  const line = shortened(plainLine(text), maxWords) ?? "";
  return /[.!?…]$/.test(line) ? line : `${line}.`;
}
