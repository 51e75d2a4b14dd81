// The status of each table of a connector. The run decides the state: pipeline/table-states.ts.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject, timestamp } from "./request/schema-forms.ts";
import { VerifiedSchema, type VerifiedTable } from "./verification.ts";

const TableStateSchema = oneOf(
  ["Waiting", "Copying", "Resuming", "Streaming", "SetAside", "Unreadable", "Excluded"],
  {
    description:
      "Where the table stands. `Waiting`: its copy has not begun; or, with a `reason`, the sink refuses its rows, and the connector stands at " +
      "them: all of its tables wait for this one. `Copying`: it is being copied, for the first time, again, or for a task. " +
      "`Resuming`: the slot was lost, and the table is yet to be compared with the source; the stream brings its changes meanwhile. " +
      "`Streaming`: the sink has its copy, and the stream brings its changes; of a connector that copies in rounds (`snapshot`): it was " +
      "copied in this round, or in the last one. `SetAside`: its changes are left out until the cause is gone. `Unreadable`: the " +
      "source does not let it be read. `Excluded`: the connector does not take it.",
  },
);
export type TableState = Static<typeof TableStateSchema>;

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const CopyPhaseSchema = oneOf(["Reading", "Writing", "Finishing"], {
  description:
    "What a copy does. `Reading`: rows are read from the source, and go to the sink. `Writing`: all rows are read and wait beside the sink's " +
    "table, because that has rows or is in use; they are being written into it. `Finishing`: all rows are there; keys and indexes are made.",
});

export const TableCopySchema = strictObject(
  {
    rows: count("Rows copied so far, with those that an earlier run copied."),
    bytes: count("Bytes copied so far by this run."),
    estimated_rows: count("Rows expected, by the source's statistics."),
    phase: Type.Optional(CopyPhaseSchema),
    rows_written: Type.Optional(
      count(
        "Rows that are in the sink's table, about. Left out but for the phase `Writing`, and where nobody knows.",
      ),
    ),
  },
  { description: "How far the copy of this table has come. Left out unless its state is `Copying`." },
);

export const TableStatusSchema = strictObject(
  {
    schema: Type.String({ description: "At the source." }),
    name: Type.String(),
    state: TableStateSchema,
    reason: Type.Optional(
      Type.String({
        description:
          "Why it is `SetAside`, `Unreadable` or `Excluded`, or what the sink refuses of it, and what to do about it. It has no value of a row but its key.",
      }),
    ),
    commands: Type.Optional(
      Type.Array(Type.String(), {
        description: "SQL to run at the sink, ready to paste. Left out where there is none.",
      }),
    ),
    copied_again: Type.Optional(
      Type.Boolean({
        description:
          "It was set aside, and nothing is left to do about that: it goes on once it is copied again. Left out where that is not so.",
      }),
    ),
    copy: Type.Optional(TableCopySchema),
    compared: Type.Optional(
      strictObject(
        {
          rows: count("Rows that were looked at."),
          estimated_rows: count("Rows expected, by the source's statistics."),
        },
        {
          description:
            "How far its comparison with the source is. Left out unless its state is `Resuming`, and it is its turn.",
        },
      ),
    ),
    rows_in: count(
      "Changes of the table that the stream has brought since the run began, without those of transactions that are not committed yet. " +
        "A change counts once, however often it is tried. After a run was cut off or its thread died, those of its last second may count again.",
    ),
    last_change_at: Type.Optional(
      timestamp("When the last of them was committed, by the source's clock. Left out before the first."),
    ),
    verified: Type.Optional(VerifiedSchema),
    history: Type.Boolean({
      description:
        "Whether every change of the table is kept at the sink (`history_enabled`). Always false for a webhook and for Kafka, which get every change anyway.",
    }),
  },
  { description: "A table of the connector's source." },
);
export type TableStatus = Static<typeof TableStatusSchema>;

export const TableStatusesSchema = strictObject(
  { tables: Type.Array(TableStatusSchema, { description: "By schema and name." }) },
  {
    description:
      "The tables that are at the connector's source, as its run reported them last, at most once a second. Partitions that are carried by their root are no " +
      "tables of their own. While the connector is stopped, or after its run has failed, this is how they stood at the end. Empty until a run has read " +
      "the source's catalog since the replica that holds the connector took it, so also after a restart of the service if the connector is stopped.",
  },
);
export type TableStatuses = Static<typeof TableStatusesSchema>;

/** The tables with what their last comparisons have found. */
export function withVerified(
  tables: readonly TableStatus[],
  verified: readonly VerifiedTable[],
): readonly TableStatus[] {
  if (verified.length === 0) return tables;
  const keyOf = ({ schema, name }: { readonly schema: string; readonly name: string }) =>
    JSON.stringify([schema, name]);
  const known = new Map(verified.map((table) => [keyOf(table), table.verified]));
  return tables.map((table) => {
    const last = known.get(keyOf(table));
    return last ? { ...table, verified: last } : table;
  });
}
