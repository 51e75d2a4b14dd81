// A task of a connector: its schema, and the request to create one. task-state.ts has the transitions between its
// states.

import { type Static, Type } from "@sinclair/typebox";
import { GivenKeySchema, maxReplayKeys, type ReplayResult, ReplayResultSchema } from "./replay.ts";
import { oneOf, strictObject, taggedUnion, timestamp } from "./request/schema-forms.ts";
import { repairs, type VerifyResult, VerifyResultSchema } from "./verification.ts";

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

const repair = oneOf(repairs, {
  description:
    "What becomes of rows that differ. `None`: they are counted. `DryRun`: the result has SQL for the rows of its sample, with their values. " +
    "`Apply`: they are replaced by the source's rows, and nothing else is touched.",
});
const samplePercent = Type.Number({
  minimum: 0.1,
  maximum: 100,
  description:
    "Compare so many percent of the rows only, chosen by their keys, always the same ones; left out: all.",
});

const keys = Type.Array(GivenKeySchema, {
  minItems: 1,
  maxItems: maxReplayKeys,
  description: `The rows to send, by their keys: at most ${maxReplayKeys}. Left out: all rows of the table.`,
});
const where = Type.Null({
  description: "Has to be null or left out: rows are chosen by their keys alone.",
});

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
    Verify: Type.Optional(
      strictObject({
        ...snapshotTable,
        database: Type.Optional(database),
        repair: Type.Optional(repair),
        sample_percent: Type.Optional(samplePercent),
      }),
    ),
    Replay: Type.Optional(
      strictObject({
        ...snapshotTable,
        database: Type.Optional(database),
        keys: Type.Optional(keys),
        where: Type.Optional(where),
      }),
    ),
  },
  {
    description:
      "The kind of the task: `Snapshot` copies one table as of a single point in time. `Verify` compares one table at a Postgres sink with its source. " +
      "`Replay` sends rows of one table to a webhook or Kafka again, as they are now.",
  },
);
export type TaskRequest = Static<typeof TaskRequestSchema>;

const SnapshotSpecSchema = strictObject({
  database,
  ...snapshotTable,
  truncate,
  force_parallel: forceParallel,
});
/** A table to copy, every default filled. */
export type SnapshotSpec = Static<typeof SnapshotSpecSchema>;

const VerifySpecSchema = strictObject({
  database,
  ...snapshotTable,
  repair,
  sample_percent: Type.Optional(samplePercent),
});
/** A table to compare, every default filled. */
export type VerifySpec = Static<typeof VerifySpecSchema>;

const ReplaySpecSchema = strictObject({
  database,
  ...snapshotTable,
  keys: Type.Optional(keys),
});
/** Rows to send again. Without `keys`: the whole table. */
export type ReplaySpec = Static<typeof ReplaySpecSchema>;

export const TaskSpecSchema = taggedUnion({
  Snapshot: Type.Optional(SnapshotSpecSchema),
  Verify: Type.Optional(VerifySpecSchema),
  Replay: Type.Optional(ReplaySpecSchema),
});
export type TaskSpec = Static<typeof TaskSpecSchema>;

export const taskStates = ["Pending", "Running", "Done", "Failed", "Cancelled"] as const;
const TaskStateSchema = oneOf(taskStates);
export type TaskState = Static<typeof TaskStateSchema>;

const TaskProgressSchema = strictObject({
  rows: Type.Integer({ minimum: 0 }),
  bytes: Type.Integer({ minimum: 0 }),
  estimated_rows: Type.Integer({ minimum: 0 }),
});
export type TaskProgress = Static<typeof TaskProgressSchema>;

const TaskResultSchema = Type.Union([VerifyResultSchema, ReplayResultSchema], {
  description:
    "What a `Verify` or a `Replay` task has come to. Left out before it is done, and for other tasks.",
});
export type TaskResult = Static<typeof TaskResultSchema>;

export const TaskSchema = strictObject({
  id: Type.String(),
  state: TaskStateSchema,
  spec: TaskSpecSchema,
  reason: Type.Optional(Type.String({ description: "Why it failed or is tried again; left out otherwise." })),
  created_at: timestamp(),
  attempt: Type.Integer({ minimum: 0, description: "Attempts that have failed so far." }),
  next_attempt_at: Type.Optional(timestamp()),
  progress: Type.Optional(TaskProgressSchema),
  result: Type.Optional(TaskResultSchema),
});
export type Task = Static<typeof TaskSchema>;

/** What a comparison has found; null: the task is another one, or is not done. */
export function verifyResultOf({ spec, result }: Pick<Task, "spec" | "result">): VerifyResult | null {
  return spec.Verify && result && "extra" in result ? result : null;
}

/** What a replay has sent; null: the task is another one, or is not done. */
export function replayResultOf({ spec, result }: Pick<Task, "spec" | "result">): ReplayResult | null {
  return spec.Replay && result && !("extra" in result) ? result : null;
}
