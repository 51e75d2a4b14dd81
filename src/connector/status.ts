// The status of a connector, its history, and the progress of a run. The runtime and the pipeline decide the status.

import { type Static, Type } from "@sinclair/typebox";
import {
  emptyObject,
  nullable,
  oneOf,
  strictObject,
  taggedUnion,
  timestamp,
  wholeNumber,
} from "./request/schema-forms.ts";
import { CopyPhaseSchema } from "./table-status.ts";

/** The phase of a run. */
export const RunStateSchema = taggedUnion(
  {
    start: Type.Optional(emptyObject("The run begins.")),
    initialize: Type.Optional(
      strictObject(
        {
          sub_state: Type.String({ description: "What is being prepared." }),
          commands: Type.Array(Type.String(), { description: "SQL that would help, ready to paste." }),
        },
        { description: "Connections, slot and publication are made." },
      ),
    ),
    snapshot: Type.Optional(
      strictObject(
        { name: Type.String({ description: "schema.table" }) },
        { description: "A table is copied." },
      ),
    ),
    realtime: Type.Optional(
      strictObject(
        { name: Type.String({ description: "The slot." }) },
        { description: "Changes are streamed." },
      ),
    ),
    scheduled: Type.Optional(emptyObject("The next copy waits for its time.")),
    disabled: Type.Optional(emptyObject("The connector is disabled.")),
    complete: Type.Optional(emptyObject("Everything asked for was copied.")),
    shutdown: Type.Optional(emptyObject("The run was stopped.")),
  },
  { description: "The phase of the run." },
);

const reason = Type.String({ description: "What is wrong, and what to do about it." });

/** The health of the run within its phase. */
export const HealthSchema = taggedUnion(
  {
    start: Type.Optional(emptyObject("The phase begins.")),
    complete: Type.Optional(emptyObject("The phase is complete.")),
    heartbeat: Type.Optional(emptyObject("The phase goes on.")),
    skipped: Type.Optional(strictObject({ reason })),
    warning: Type.Optional(strictObject({ reason })),
    retry: Type.Optional(strictObject({ attempt: wholeNumber({ minimum: 1 }), reason })),
    failed: Type.Optional(strictObject({ reason })),
  },
  { description: "How the run fares within its phase." },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

/** Counters since the run began, and current gauges. */
export const RunProgressSchema = strictObject(
  {
    rows_in: count(
      "Changes of committed transactions that came from the source since the run began. A change counts once, however often it is tried. After a run was " +
        "cut off or its thread died, those of its last second may count again.",
    ),
    rows_durable: count("Rows that are durable at the sink since the run began."),
    bytes_durable: count("Bytes of those rows."),
    requests: count("Requests that were answered, at a webhook sink."),
    snapshot: strictObject({
      tables: count("Tables of the initial copy."),
      tables_done: count("Tables whose copy is durable."),
      rows: count("Rows copied."),
      bytes: count("Bytes copied."),
      estimated_rows: count("Rows expected, by the source's statistics."),
      phase: Type.Optional(CopyPhaseSchema),
    }),
    resume: Type.Optional(
      strictObject(
        {
          tables: count("Tables of the connector."),
          tables_done: count("Those that need not be compared any more."),
          table: nullable(
            Type.String({ description: "schema.table of the one that is being compared now." }),
          ),
          rows: count("Rows of it that were looked at."),
          estimated_rows: count("Rows expected, by the source's statistics."),
        },
        {
          description:
            "How far the command Resume is. Left out unless tables are still to be compared with the source.",
        },
      ),
    ),
    lag_bytes: count("Bytes of the source's log that are not yet acknowledged."),
    lag_seconds: nullable(
      Type.Number({
        minimum: 0,
        description:
          "For how long the oldest commit that was seen has been waiting to be durable at the sink; 0: none waits; null: nothing streams, and none is known.",
      }),
    ),
    latency_ms: nullable(
      Type.Number({ description: "From commit at the source to durable at the sink, of the last change." }),
    ),
    resume_lsn: nullable(Type.String({ description: "Everything before it is durable at the sink." })),
  },
  { description: "Counters since the run began, and gauges of now. Left out before the first." },
);
export type RunProgress = Static<typeof RunProgressSchema>;

export const SetAsideTableSchema = strictObject(
  {
    schema: Type.String({ description: "At the source." }),
    name: Type.String(),
    since_lsn: Type.Optional(
      Type.String({
        description: "Changes that were committed from here on are left out. Absent: they are delivered.",
      }),
    ),
    reason,
    commands: Type.Array(Type.String(), { description: "SQL to run at the sink, ready to paste." }),
    copied_again: Type.Optional(
      Type.Boolean({
        description:
          "Nothing is left to do about it: it goes on once it is copied again. Left out where that is not so.",
      }),
    ),
  },
  {
    description:
      "A table that needs a change at the sink which migration_strategy does not allow, or that the source does not let be read.",
  },
);
export type SetAsideTable = Static<typeof SetAsideTableSchema>;

const statusFields = { state: RunStateSchema, status: HealthSchema };

export const StatusSchema = strictObject(statusFields);
export type Status = Static<typeof StatusSchema>;

/** Whether nothing runs before somebody acts. */
export function stands({ state, status }: Status): boolean {
  return (state.shutdown ?? state.disabled ?? status.failed) !== undefined;
}

/** The status as connectors show it, with additional facts. */
export const ConnectorStatusSchema = strictObject({
  ...statusFields,
  progress: Type.Optional(RunProgressSchema),
  last_error: Type.Optional(
    strictObject(
      { code: Type.String(), reason, at: timestamp() },
      { description: "The last error of this run, also when it is over. Left out when there was none." },
    ),
  ),
  next_snapshot_at: Type.Optional(
    timestamp("When everything is copied again. Left out without a schedule, and meanwhile."),
  ),
  next_attempt_at: Type.Optional(
    timestamp(
      "When it is tried again, while the status is `retry`. Left out while an attempt is under way, and where it is not known.",
    ),
  ),
  tables_set_aside: Type.Optional(
    Type.Array(SetAsideTableSchema, {
      description:
        "Tables that stand while the others go on; each is copied again once its cause is gone. Left out when there is none.",
    }),
  ),
  replica: Type.Optional(
    Type.String({
      description:
        "Id of the replica that holds the connector, and runs it unless it is stopped. Left out while none does, and with embedded state.",
    }),
  ),
});
export type ConnectorStatus = Static<typeof ConnectorStatusSchema>;

const HistoryComponentSchema = oneOf(["Connector", "Source", "Buffer", "Target"]);
export type HistoryComponent = Static<typeof HistoryComponentSchema>;

export const HistoryEntrySchema = strictObject({
  id: Type.String(),
  connector_id: Type.String(),
  run_id: Type.String(),
  component: HistoryComponentSchema,
  status: StatusSchema,
  created_at: timestamp(),
});
export type HistoryEntry = Static<typeof HistoryEntrySchema>;
