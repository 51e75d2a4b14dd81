// Everything that is stored, as tables of one schema of their own, so that a shared database keeps ours apart.
// The migrations in drizzle/ are generated from this file; nothing outside this folder sees it.

import { sql } from "drizzle-orm";
import {
  bigint,
  bigserial,
  boolean,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { HistoryComponent, Status } from "../connector/status.ts";
import type { TaskSpec, TaskState } from "../connector/task.ts";

/** The Postgres schema that holds the tables, and the record of the migrations applied. */
export const schemaName = "millrace";

const millrace = pgSchema(schemaName);

const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });

export const connectors = millrace.table("connectors", {
  id: text("id").primaryKey(),
  /** Two ids that would share a slot at a source cannot both be stored. */
  slotName: text("slot_name").notNull().unique(),
  /** The full configuration as JSON, secrets included, sealed with AES-256-GCM. */
  sealedConfig: text("sealed_config").notNull(),
  /** Command Stop was given, and no Start since. */
  stopped: boolean("stopped").notNull(),
  /**
   * Set once Delete (`wait`: until the source has been cleaned up) or ForceDelete (`force`: tried once) was accepted;
   * it goes on after a restart.
   */
  deletion: text("deletion").$type<"wait" | "force">(),
  /**
   * A configuration, sealed, whose slot and publication are to be dropped, and whose progress is to be forgotten,
   * before the next run: that of a connector that begins anew.
   */
  sealedCleanup: text("sealed_cleanup"),
  /** Slot and checkpoint have been made once: a missing checkpoint is a loss from then on. */
  initialized: boolean("initialized").notNull(),
  /** Of a connector that copies everything, once or on a schedule: when the round that is under way, or was the last, began. */
  roundBegunAt: instant("round_begun_at"),
  /** Null: the round is under way, or none has begun. */
  roundEndedAt: instant("round_ended_at"),
  runId: uuid("run_id").notNull(),
  createdAt: instant("created_at").notNull(),
});

export const statusHistory = millrace.table(
  "status_history",
  {
    /** The order of the records, whatever the clock did. */
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
    /** The spec as text in a fixed order: equal for identical tasks. */
    specKey: text("spec_key").notNull(),
    reason: text("reason"),
    attempt: integer("attempt").notNull(),
    nextAttemptAt: instant("next_attempt_at"),
    rows: bigint("rows", { mode: "number" }).notNull(),
    bytes: bigint("bytes", { mode: "number" }).notNull(),
    estimatedRows: bigint("estimated_rows", { mode: "number" }).notNull(),
    createdAt: instant("created_at").notNull(),
  },
  (table) => [
    index("tasks_by_connector").on(table.connectorId, table.sequence),
    // Of two requests that race for the same task, the second finds the first one's record.
    uniqueIndex("tasks_open_spec")
      .on(table.connectorId, table.specKey)
      .where(sql`state in ('Pending', 'Running')`),
  ],
);

/** A sink's own record, where the sink cannot keep its checkpoint beside its rows. */
export const sinkRecords = millrace.table("sink_records", {
  connectorId: text("connector_id")
    .primaryKey()
    .references(() => connectors.id, { onDelete: "cascade" }),
  record: text("record").notNull(),
});

/** Parts of a sink's own record, that it changes one by one. They go with it. */
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

/** What a source remembers between runs. */
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
