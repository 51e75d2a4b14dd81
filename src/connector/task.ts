// A task of a connector: its schema, and the request to create one. task-state.ts has the transitions between its
// states.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject, taggedUnion, timestamp } from "./request/schema-forms.ts";

const identifier = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });

const snapshotTable = {
  schema: identifier("Schema of the table."),
  name: identifier("Name of the table."),
};
const database = identifier("Database of the table; left out: the connection's.");
const truncate = Type.Boolean({
  description: "After the copy, rows of the sink's table that the copy did not bring are removed.",
});
const forceParallel = Type.Boolean({ description: "Copy in parallel chunks however small the table is." });

export const TaskRequestSchema = taggedUnion(
  {
    Snapshot: Type.Optional(
      strictObject({
        ...snapshotTable,
        database: Type.Optional(database),
        truncate: Type.Optional(truncate),
        force_parallel: Type.Optional(forceParallel),
      }),
    ),
  },
  { description: "The kind of the task: `Snapshot` copies one table as of a single point in time." },
);
export type TaskRequest = Static<typeof TaskRequestSchema>;

export const SnapshotSpecSchema = strictObject({
  database,
  ...snapshotTable,
  truncate,
  force_parallel: forceParallel,
});
/** A table to copy, every default filled. */
export type SnapshotSpec = Static<typeof SnapshotSpecSchema>;

export const TaskSpecSchema = taggedUnion({ Snapshot: Type.Optional(SnapshotSpecSchema) });
export type TaskSpec = Static<typeof TaskSpecSchema>;

export const taskStates = ["Pending", "Running", "Done", "Failed", "Cancelled"] as const;
export const TaskStateSchema = oneOf(taskStates);
export type TaskState = Static<typeof TaskStateSchema>;

export const TaskProgressSchema = strictObject({
  rows: Type.Integer({ minimum: 0 }),
  bytes: Type.Integer({ minimum: 0 }),
  estimated_rows: Type.Integer({ minimum: 0 }),
});
export type TaskProgress = Static<typeof TaskProgressSchema>;

export const TaskSchema = strictObject({
  id: Type.String(),
  state: TaskStateSchema,
  spec: TaskSpecSchema,
  reason: Type.Optional(Type.String({ description: "Why it failed or is tried again; left out otherwise." })),
  created_at: timestamp(),
  attempt: Type.Integer({ minimum: 0, description: "Attempts that have failed so far." }),
  next_attempt_at: Type.Optional(timestamp()),
  progress: Type.Optional(TaskProgressSchema),
});
export type Task = Static<typeof TaskSchema>;
