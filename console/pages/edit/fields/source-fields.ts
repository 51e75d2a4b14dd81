// The fields of a Postgres source. Pure.

import { connectionGroups, mainConnectionFields } from "./connection-fields.ts";
import { check, choice, type GroupSpec, number, presence, text, union } from "./field-spec.ts";

const snapshot = "/source/postgres/replication_type/snapshot";
const logical = "/source/postgres/replication_type/logical_replication";

export const sourceGroups: readonly GroupSpec[] = [
  {
    title: "The database to read",
    isMain: true,
    fields: mainConnectionFields("/source/postgres/connection"),
  },
  {
    title: "Replication",
    hint: "Stream changes, or copy now and then",
    fields: [
      union(
        "/source/postgres/replication_type",
        "What is carried",
        {
          logical_replication: "All rows once, then every change",
          snapshot: "Copies alone, once or on a schedule",
        },
        { isFixed: true },
      ),
      text(`${logical}/publication_name`, "Publication", {
        under: logical,
        hint: "One that the owner of the tables has made. Left out, millrace makes its own, for which its role has to own the tables.",
      }),
      check(`${logical}/skip_snapshots`, "Begin with the changes, and copy nothing first", {
        under: logical,
      }),
      choice(
        `${logical}/toast_mode`,
        "Large values that an update did not touch",
        {
          ReplicaIdentityFull: "From the old row, where the table logs it",
          Placeholder: "A placeholder in messages",
        },
        { under: logical },
      ),
      number(`${logical}/retry_window_seconds`, "Retry for (seconds)", {
        under: logical,
        width: 2,
        hint: "0: 300. Then the run fails.",
      }),
      union(
        "/schedule",
        "When to copy again",
        { rate: "At a fixed interval", cron: "At times of the day" },
        {
          under: snapshot,
          none: "Never: copy once",
          blanks: { rate: { value: 1, unit: "Hour" }, cron: { expression: "0 3 * * *", timezone: "UTC" } },
        },
      ),
      number("/schedule/rate/value", "Every", { under: "/schedule/rate", width: 2 }),
      choice(
        "/schedule/rate/unit",
        "Unit",
        { Minute: "minutes", Hour: "hours", Day: "days" },
        { under: "/schedule/rate", width: 2 },
      ),
      text("/schedule/cron/expression", "Cron expression", {
        under: "/schedule/cron",
        hint: "Five fields: minute, hour, day, month, weekday.",
      }),
      text("/schedule/cron/timezone", "Time zone", { under: "/schedule/cron", placeholder: "Europe/Berlin" }),
    ],
  },
  {
    title: "Copies and partitions",
    fields: [
      check("/source/postgres/parallel_snapshots_enabled", "Copy large tables in parallel"),
      check("/source/postgres/partitions_as_root", "Carry partitions as their root table"),
      union("/source/postgres/keyless_table_strategy", "Tables without a key", {
        append_only: "Each insert is one more row",
        dedup_by_row_hash: "Equal rows are one row, by a hash",
      }),
    ],
  },
  {
    title: "Extra columns",
    hint: "When, where and by what a row was changed",
    fields: [
      presence("/source/postgres/system_columns/synced_at", "_sm_synced_at: when the row was read"),
      presence("/source/postgres/system_columns/lsn", "_sm_lsn: the place of its commit in the log"),
      presence("/source/postgres/system_columns/op", "_sm_op: what was done"),
      choice(
        "/source/postgres/system_columns/op/encoding",
        "_sm_op says it as",
        { None: "Not at all", Char: "c, u, d, r", Int: "1, 2, 3, 0", String: "insert, update, delete, read" },
        { under: "/source/postgres/system_columns/op" },
      ),
      check("/source/postgres/system_columns/op/snapshot_as_read", "Rows of a copy are reads, not inserts", {
        under: "/source/postgres/system_columns/op",
      }),
    ],
  },
  ...connectionGroups("/source/postgres/connection"),
];
