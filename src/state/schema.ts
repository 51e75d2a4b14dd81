// The tables of what is stored, in a schema of their own, apart from others in a shared database; replica-tables.ts has those of replicas. The
// migrations in drizzle/ are generated from both. Nothing outside this folder uses them.

import { sql } from "drizzle-orm";
import {
  bigint,
  bigserial,
  boolean,
  index,
  integer,
  jsonb,
  numeric,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { AttemptNote, ParkedCause } from "../connector/parking.ts";
import type { ReceiptTable } from "../connector/receipts.ts";
import type { HistoryComponent, Status } from "../connector/status.ts";
import type { TaskResult, TaskSpec, TaskState } from "../connector/task.ts";
import { bytea, instant } from "./column-kinds.ts";

/** The Postgres schema of the tables and of the record of applied migrations. */
export const schemaName = "millrace";

const millrace = pgSchema(schemaName);

export const connectors = millrace.table("connectors", {
  id: text("id").primaryKey(),
  /** Unique: two connectors must not share a slot at a source. */
  slotName: text("slot_name").notNull().unique(),
  /** The configuration as JSON, with secrets, encrypted with AES-256-GCM. */
  sealedConfig: text("sealed_config").notNull(),
  /** Command Stop came, and no Start since. */
  stopped: boolean("stopped").notNull(),
  /**
   * Set by Delete (`wait`: until the source has been cleaned up) or ForceDelete (`force`: one attempt). The deletion
   * continues after a restart.
   */
  deletion: text("deletion").$type<"wait" | "force">(),
  /**
   * Set when a connector is initialized again: the encrypted configuration whose slot and publication must be dropped
   * before the next run.
   */
  sealedCleanup: text("sealed_cleanup"),
  /** Slot and checkpoint were created once: from then on a missing checkpoint is a loss. */
  initialized: boolean("initialized").notNull(),
  /** Command Resume came: if the slot is lost, the next run makes another one. Until that has happened. */
  resumes: boolean("resumes").notNull().default(false),
  /**
   * For a connector that copies everything, once or on a schedule: when the current round, or else the last one, began.
   */
  roundBegunAt: instant("round_begun_at"),
  /** Null: the round is not complete, or none has begun. */
  roundEndedAt: instant("round_ended_at"),
  runId: uuid("run_id").notNull(),
  createdAt: instant("created_at").notNull(),
});

export const statusHistory = millrace.table(
  "status_history",
  {
    /** The order of the records, however the clock was set. */
    sequence: bigserial("sequence", { mode: "number" }).primaryKey(),
    id: uuid("id").notNull(),
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    runId: uuid("run_id").notNull(),
    component: text("component").$type<HistoryComponent>().notNull(),
    status: jsonb("status").$type<Status>().notNull(),
    createdAt: instant("created_at").notNull(),
  },
  (table) => [index("status_history_by_connector").on(table.connectorId, table.sequence)],
);

export const tasks = millrace.table(
  "tasks",
  {
    sequence: bigserial("sequence", { mode: "number" }).primaryKey(),
    id: uuid("id").notNull().unique(),
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    state: text("state").$type<TaskState>().notNull(),
    spec: jsonb("spec").$type<TaskSpec>().notNull(),
    /** The spec as a canonical text: equal for identical tasks. */
    specKey: text("spec_key").notNull(),
    reason: text("reason"),
    attempt: integer("attempt").notNull(),
    nextAttemptAt: instant("next_attempt_at"),
    rows: bigint("rows", { mode: "number" }).notNull(),
    bytes: bigint("bytes", { mode: "number" }).notNull(),
    estimatedRows: bigint("estimated_rows", { mode: "number" }).notNull(),
    createdAt: instant("created_at").notNull(),
    /** What a verification has found, or a replay has sent. */
    result: jsonb("result").$type<TaskResult>(),
  },
  (table) => [
    index("tasks_by_connector").on(table.connectorId, table.sequence),
    // Of two concurrent requests for the same task, the second finds the first one's record.
    uniqueIndex("tasks_open_spec")
      .on(table.connectorId, table.specKey)
      .where(sql`state in ('Pending', 'Running')`),
  ],
);

/** When each table was last compared with its source as a whole. */
export const verifiedTables = millrace.table(
  "verified_tables",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    /** At the source. */
    schema: text("schema").notNull(),
    name: text("name").notNull(),
    at: instant("at").notNull(),
    asOfLsn: text("as_of_lsn").notNull(),
    rows: bigint("rows", { mode: "number" }).notNull(),
    /** Rows that differed, and were not repaired. */
    differing: bigint("differing", { mode: "number" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.schema, table.name] })],
);

/** The record of a sink that cannot store its checkpoint with its rows. */
export const sinkRecords = millrace.table("sink_records", {
  connectorId: text("connector_id")
    .primaryKey()
    .references(() => connectors.id, { onDelete: "cascade" }),
  record: text("record").notNull(),
});

/** Parts of a sink's record that change separately. They are deleted with it. */
export const sinkRecordParts = millrace.table(
  "sink_record_parts",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => sinkRecords.connectorId, { onDelete: "cascade" }),
    name: text("name").notNull(),
    part: text("part").notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.name] })],
);

/** What a source keeps between runs. */
export const sourceRecords = millrace.table("source_records", {
  connectorId: text("connector_id")
    .primaryKey()
    .references(() => connectors.id, { onDelete: "cascade" }),
  record: text("record").notNull(),
});

export const settings = millrace.table("settings", {
  name: text("name").primaryKey(),
  value: text("value").notNull(),
});

/** Messages that a receiver refused, and those that wait behind them. What has left the parking stays until its rows cannot come again. */
export const parkedMessages = millrace.table(
  "parked_messages",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    /** The Idempotency-Key. */
    id: uuid("id").notNull(),
    /** The order in which they were parked, which for one key is that of its changes. */
    sequence: bigserial("sequence", { mode: "number" }).notNull(),
    state: text("state").$type<"parked" | "delivered" | "discarded">().notNull(),
    cause: text("cause").$type<ParkedCause>().notNull(),
    schemaName: text("schema_name").notNull(),
    tableName: text("table_name").notNull(),
    keys: text("keys").notNull(),
    hashes: integer("hashes").array().notNull(),
    isWide: boolean("is_wide").notNull(),
    rows: integer("rows").notNull(),
    bytes: bigint("bytes", { mode: "number" }).notNull(),
    /** Compressed with zstd; null: it has left the parking. */
    body: bytea("body"),
    minVersion: bigint("min_version", { mode: "number" }).notNull(),
    maxVersion: bigint("max_version", { mode: "number" }).notNull(),
    /** Of each row, and of the first row of each of `hashes`; null: there is one row. */
    versions: jsonb("versions").$type<readonly (readonly number[])[]>(),
    /** Null: this is of a version of millrace that knew rows by their versions, as it still may. */
    maxPlace: numeric("max_place", { mode: "bigint" }),
    /** The places of the rows, and the first row of each of `hashes`; null: there is one row. */
    places: jsonb("places").$type<readonly [readonly string[], readonly number[]]>(),
    isOfCopy: boolean("is_of_copy").notNull(),
    firstLsn: text("first_lsn"),
    committedAt: instant("committed_at").notNull(),
    attempts: jsonb("attempts").$type<readonly AttemptNote[]>().notNull(),
    /** It was sent, and nobody knows whether it arrived. */
    mayHaveArrived: boolean("may_have_arrived").notNull().default(false),
    parkedAt: instant("parked_at").notNull(),
    /** It is to be sent again. With microseconds: later wishes are told from earlier ones. */
    askedAt: timestamp("asked_at", { withTimezone: true, mode: "string" }),
    endedAt: instant("ended_at"),
    /** The credential that discarded it. */
    endedBy: text("ended_by"),
    /** Its rows are behind the checkpoint. */
    isPassed: boolean("is_passed").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.connectorId, table.id] }),
    index("parked_messages_in_order").on(table.connectorId, table.sequence),
    index("parked_messages_asked").on(table.connectorId).where(sql`asked_at is not null`),
    index("parked_messages_ended").on(table.connectorId, table.endedAt).where(sql`state <> 'parked'`),
  ],
);

/** What became of requests, in batches. Neither body nor filter compress any more. */
export const receipts = millrace.table(
  "receipts",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    /** UUIDv7: they sort by time. */
    id: uuid("id").notNull(),
    /** When the first of them was saved. */
    beganAt: instant("began_at").notNull(),
    requests: integer("requests").notNull(),
    body: bytea("body").notNull(),
    /** Tells which keys cannot be in it. */
    filter: bytea("filter").notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.id] })],
);

/** The tables that a connector with receipts carries, and what their keys are. */
export const receiptTables = millrace.table("receipt_tables", {
  connectorId: text("connector_id")
    .primaryKey()
    .references(() => connectors.id, { onDelete: "cascade" }),
  tables: jsonb("tables").$type<readonly ReceiptTable[]>().notNull(),
});

/** How requests were cut whose rows may come again. */
export const requestCuts = millrace.table(
  "request_cuts",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    key: uuid("key").notNull(),
    parts: jsonb("parts").$type<readonly string[]>().notNull(),
    maxVersion: bigint("max_version", { mode: "number" }).notNull(),
    maxPlace: numeric("max_place", { mode: "bigint" }),
    isOfCopy: boolean("is_of_copy").notNull(),
    cutAt: instant("cut_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.key] })],
);
