// The tables of what replicas tell each other by way of the state: who lives, who may run what, and how it goes. schema.ts has all else that is
// stored. The migrations in drizzle/ are generated from both.

import { bigint, boolean, integer, pgSchema, primaryKey, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import { termsOfLife } from "../connector/term.ts";
import { instant } from "./column-kinds.ts";
import { connectors, schemaName } from "./schema.ts";

const millrace = pgSchema(schemaName);

/** The processes that serve this state together. One row for each name. */
export const replicas = millrace.table("replicas", {
  id: text("id").primaryKey(),
  /** Of one life of the process: the next one under this name has another. */
  instance: uuid("instance").notNull().unique(),
  host: text("host").notNull(),
  version: text("version").notNull(),
  /** Its share of the connectors, compared with the others. */
  weight: integer("weight").notNull(),
  leaseMs: integer("lease_ms").notNull(),
  startedAt: instant("started_at").notNull(),
  /** By the server's clock. */
  seenAt: instant("seen_at").notNull(),
  trouble: text("trouble"),
});

/**
 * The right to run a connector. A trigger makes the row. Pages are half full, so that a renewal, which changes every
 * row of a replica, writes next to the row and touches no index.
 */
export const leases = millrace.table(
  "leases",
  {
    connectorId: text("connector_id")
      .primaryKey()
      .references(() => connectors.id, { onDelete: "cascade" }),
    /** Counts the holders: each take-over adds one. */
    term: bigint("term", { mode: "number" }).notNull().default(0),
    /** An instance; null: nobody. */
    holder: uuid("holder"),
    /** By the server's clock. Without a holder: since when there is none. */
    endsAt: instant("ends_at"),
    /** Its holder says that the connector is to run. */
    active: boolean("active").notNull().default(true),
  },
  // It makes the term a part of a key, so that of all updates only a take-over waits for writes under the term.
  // https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS
  (table) => [uniqueIndex("leases_by_term").on(table.connectorId, table.term)],
);

/** The terms of each connector that is made are above one of these: they are not those of an earlier one with its id. */
export const firstTerms = millrace.sequence("first_terms", {
  startWith: termsOfLife,
  increment: termsOfLife,
});

/** Who held a connector under which term. */
export const leaseTerms = millrace.table(
  "lease_terms",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    term: bigint("term", { mode: "number" }).notNull(),
    replicaId: text("replica_id").notNull(),
    takenAt: instant("taken_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.term] })],
);

/** What a holder says of a connector's run, for the other replicas. Unlogged: after a crash it is said again. */
export const runReports = millrace.table(
  "run_reports",
  {
    connectorId: text("connector_id")
      .notNull()
      .references(() => connectors.id, { onDelete: "cascade" }),
    kind: text("kind").$type<"status" | "tables">().notNull(),
    term: bigint("term", { mode: "number" }).notNull(),
    holder: uuid("holder").notNull(),
    /** Of the holder's reports: each is higher than the one before. */
    version: bigint("version", { mode: "number" }).notNull(),
    body: text("body").notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorId, table.kind] })],
);
