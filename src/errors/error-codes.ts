// The one table of error codes: HTTP status, title, and whether a retry can help. Users look up codes, so the comment
// of a code is its documentation. A permanent one stops the run. A transient one is tried again: for ever where it begins with
// `sink_` and for `state_unavailable`, else for `retry_window_seconds`.

/** Whether a run that failed with this code is retried automatically. */
export type Retry = "transient" | "permanent";

interface ErrorKind {
  readonly status: number;
  readonly title: string;
  readonly retry: Retry;
}

const kind = (status: number, title: string, retry: Retry = "permanent"): ErrorKind => ({
  status,
  title,
  retry,
});

export const errorKinds = {
  // --- the request -------------------------------------------------------------------------
  /** The body is not JSON. */
  malformed_json: kind(400, "Malformed JSON"),
  /** A query parameter is unknown or has an invalid value. */
  invalid_query: kind(400, "Invalid query parameter"),
  /** Authentication is on, and the credentials are missing or wrong. */
  unauthorized: kind(401, "Unauthorized"),
  /** The credentials may only read, or a page of another site sent the request. */
  forbidden: kind(403, "Forbidden"),
  connector_not_found: kind(404, "Connector not found"),
  task_not_found: kind(404, "Task not found"),
  /** No message of this id is parked: it was delivered, or there was none. */
  parked_not_found: kind(404, "Parked message not found"),
  not_found: kind(404, "Not found"),
  method_not_allowed: kind(405, "Method not allowed"),
  /** The record's state forbids it: a task that cannot be cancelled, a slot name that is taken. */
  conflict: kind(409, "Conflict"),
  /** A PATCH would change what cannot change: create another connector instead. */
  immutable_field: kind(409, "Immutable field"),
  /** The connector is not as `If-Match` or `If-None-Match` demands: somebody else has made or changed it. */
  precondition_failed: kind(412, "Precondition failed"),
  body_too_large: kind(413, "Body too large"),
  unsupported_media_type: kind(415, "Unsupported media type"),
  /** The body violates the schema; `errors` lists every violation. */
  invalid_request: kind(422, "Invalid request"),
  /** A kind whose name is known, but which is not built. */
  unsupported_kind: kind(422, "Unsupported kind"),
  /** A required secret was left out, and no stored one can be used. */
  missing_secret: kind(422, "Missing secret"),
  /** As many clients as may follow the events do so already. */
  too_many_clients: kind(503, "Too many clients", "transient"),
  /** An internal error. The log has the details under the id in the response. */
  internal: kind(500, "Internal error", "transient"),
  source_unreachable: kind(502, "Source unreachable", "transient"),
  source_timeout: kind(504, "Source timeout", "transient"),

  // --- the source --------------------------------------------------------------------------
  /** The server refused the user name or password. It is not retried, because that could lock the account. */
  source_authentication_failed: kind(502, "Source authentication failed"),
  /** The role lacks a privilege; the reason has the GRANT. */
  source_permission_denied: kind(502, "Source permission denied"),
  /** `wal_level` is not `logical`. */
  wal_level_not_logical: kind(502, "wal_level is not logical"),
  /** The connection was lost, or the server is starting or shutting down. */
  source_connection_lost: kind(502, "Source connection lost", "transient"),
  /** The slot is in use by a process of somebody else; the reason names it. */
  slot_active: kind(502, "Replication slot is active", "transient"),
  /** The slot of the checkpoint no longer exists: changes may be missing. */
  slot_missing: kind(502, "Replication slot is missing"),
  /** A slot with the connector's name belongs to another database or plugin: slot names are unique in a server. */
  slot_mismatch: kind(502, "Replication slot is another one"),
  /** The server removed WAL that the slot needs (`max_slot_wal_keep_size`, `idle_replication_slot_timeout`). */
  slot_invalidated: kind(502, "Replication slot is invalidated"),
  /** Somebody else advanced the slot past the checkpoint: changes are missing. */
  slot_ahead: kind(502, "Replication slot is ahead of the checkpoint"),
  /** All replication slots are taken (`max_replication_slots`). Copying a new table takes one for a moment. */
  slots_exhausted: kind(502, "No free replication slot", "transient"),
  /** All WAL senders are taken (`max_wal_senders`). */
  walsenders_exhausted: kind(502, "No free WAL sender", "transient"),
  /** The creation of the slot waits for a transaction that has been open for long. */
  slot_creation_blocked: kind(502, "Slot creation is blocked", "transient"),
  /** The connector has run before, and the sink no longer has its checkpoint. */
  checkpoint_missing: kind(502, "Checkpoint is missing"),
  /** A publication does not exist, or did not when changes were logged. */
  publication_missing: kind(502, "Publication is missing"),
  /**
   * The publication that the connector names covers less than the connector selects, or is another one than a transaction was
   * delivered in part from; or somebody altered the service's own publication.
   */
  publication_mismatch: kind(502, "Publication does not fit"),
  /** A selected table is not in the publication, or no longer exists. */
  table_unavailable: kind(502, "Table unavailable"),
  /** A table cannot be read: it is locked for long, or damaged. It is retried; other tables continue. */
  table_unreadable: kind(502, "Table unreadable", "transient"),
  /** A table is locked, so that it cannot be published yet, or its copy cannot begin at the sink. It is retried; others continue. */
  table_locked: kind(502, "Table locked", "transient"),
  /** A table has a column with the name of one that the connector would add. */
  column_conflict: kind(502, "Column name is taken"),
  /** A table was altered, rewritten or dropped just before it was published or copied: that begins again. */
  table_changed: kind(502, "Table changed", "transient"),
  /**
   * The source's log lacks what the sink has: it ends before the checkpoint, or branched off before it. The source was
   * restored from a backup, or a standby was promoted that had not received everything.
   */
  source_behind: kind(502, "Source is behind the checkpoint"),
  /** A standby answers at the source's address, and is not promoted yet, or has not replayed enough of the log. */
  source_is_standby: kind(502, "Source is a standby", "transient"),
  /** Another database cluster answers at the source's address. */
  source_replaced: kind(502, "Source is another server"),
  /** The server sent something that the protocol does not allow. */
  protocol_violation: kind(502, "Protocol violation"),

  // --- the sink ----------------------------------------------------------------------------
  /** The sink retries by itself while the run continues. The status shows it; nothing ends. */
  sink_retrying: kind(502, "Sink is tried again", "transient"),
  sink_unreachable: kind(502, "Sink unreachable", "transient"),
  sink_authentication_failed: kind(502, "Sink authentication failed"),
  /** The role lacks a privilege at the sink. It is retried until the role has it. */
  sink_permission_denied: kind(502, "Sink permission denied", "transient"),
  sink_connection_lost: kind(502, "Sink connection lost", "transient"),
  /**
   * A topic is to have more replicas than the Kafka cluster has brokers. It is retried, as a cluster may count the brokers
   * that live.
   */
  sink_too_few_brokers: kind(502, "Too few Kafka brokers", "transient"),
  /**
   * The sink's table does not have the shape that a change needs; the reason has the SQL. It is retried until the SQL
   * has been run.
   */
  sink_schema_mismatch: kind(502, "Sink schema mismatch", "transient"),
  /** A table that was copied no longer exists at the sink: it is copied again. */
  sink_table_missing: kind(502, "Sink table missing", "transient"),
  /**
   * Rows that the source has updated are missing at the sink, and the source did not send all of their values: the
   * table is copied again.
   */
  sink_rows_missing: kind(502, "Rows missing at the sink", "transient"),
  /** Another connector writes to the sink table that this one would write to. */
  sink_table_taken: kind(502, "Sink table is taken"),
  /** The sink refused rows: because of a constraint, a value out of range, a full disk, or a lock. */
  sink_rejected_rows: kind(502, "Sink rejected rows", "transient"),
  /**
   * The schema registry does not take the schema of a table's rows, or does not have it; the reason has the subject and
   * what the registry says.
   */
  sink_schema_rejected: kind(502, "Schema registry rejected a schema"),
  /** The receiver answered with a status that no retry can fix. */
  webhook_rejected: kind(502, "Webhook rejected"),
  /** `max_retries` or `max_retry_duration_ms` was reached. */
  webhook_retries_exhausted: kind(502, "Webhook retries exhausted"),
  /** As many messages are parked as may be: mend the receiver, retry or discard them, then Start. */
  parking_full: kind(502, "Parking is full"),
  /**
   * The service does not send to this address (link-local, metadata service, egress policy), or the name of a table would
   * lead to another path.
   */
  webhook_address_refused: kind(502, "Webhook address refused"),
  /** The name of a table makes a topic's name that Kafka does not take: another `topic_name_template` is needed. */
  invalid_topic_name: kind(502, "Invalid topic name"),

  /** A message is larger than `message_max_bytes`, or than its topic takes; the reason has its table, key and size. */
  kafka_message_too_large: kind(502, "Kafka message too large"),
  /** A column of a key has a value that its Avro type cannot hold, as a `numeric` that is NaN; the reason has the column. */
  kafka_key_unwritable: kind(502, "Kafka key cannot be written"),
  /** Another service runs the same connector, or something else uses its `transactional_id`: this one begins again, and stops where that happens again and again. */
  kafka_fenced: kind(502, "Kafka producer fenced"),
  /** The user lacks an operation on a topic, the cluster or the transactional id; the reason names it. */
  kafka_not_authorized: kind(502, "Not authorized in Kafka"),
  /** The cluster does not take a topic, a setting or a message; the reason has its own words. */
  kafka_rejected: kind(502, "Kafka rejected a request"),

  // --- the service -------------------------------------------------------------------------
  /** The values of a new relation do not exist in the stream's form: the run begins again in the other form. */
  stream_form_changed: kind(500, "Stream form changed", "transient"),
  /** A transaction that was streamed before its commit has to be taken again after its commit. */
  transaction_given_up: kind(500, "Transaction given up", "transient"),
  /** Another replica has taken the connector over: what this one still does for it is refused. */
  lease_lost: kind(503, "Lease lost", "transient"),
  /** The state store did not answer. */
  state_unavailable: kind(503, "State store unavailable", "transient"),
  /** A stored secret cannot be decrypted with the present key. */
  encryption_key_mismatch: kind(500, "Encryption key mismatch"),
  /** A setting of the service is wrong; the message says which one and how to fix it. */
  invalid_setting: kind(500, "Invalid setting"),
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorKinds;

/** Failures of a connector whose stream cannot go on: changes are missing. */
export const lossCodes: ReadonlySet<string> = new Set<ErrorCode>([
  "slot_missing",
  "slot_invalidated",
  "slot_ahead",
  "source_behind",
  "source_replaced",
  "checkpoint_missing",
]);

/** Those after which a Postgres sink can go on with a new slot: its rows are compared with the source's, and only what differs is copied. */
export const resumableCodes: ReadonlySet<string> = new Set<ErrorCode>([
  "slot_missing",
  "slot_invalidated",
  "slot_ahead",
  "source_behind",
]);

/** Whether it is the source that has failed, of whatever kind. */
export function isOfSource(code: ErrorCode): boolean {
  return /^(?:source_|wal_|slots?_|walsenders_|publication_|table_|protocol_)/.test(code);
}

/** Whether it is the sink that has failed, of whatever kind. */
export function isOfSink(code: ErrorCode): boolean {
  return /^(?:sink_|webhook_|kafka_|parking_full$|invalid_topic_name$)/.test(code);
}
