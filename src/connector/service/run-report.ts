// What the replica that runs a connector reports on it for the others, through the state. Replicas of two versions may
// share a state for a while, so a report is read tolerantly: what is unknown in it is left out, and one that cannot be
// understood is as if it were not there.

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { Value } from "@sinclair/typebox/value";
import { nullable } from "../request/schema-forms.ts";
import { ConnectorStatusSchema } from "../status.ts";
import { type TableStatus, TableStatusSchema } from "../table-status.ts";

/** The form of reports. A replica that does not know a form takes no notice of the report. */
export const reportForm = 1;

const count = Type.Number({ minimum: 0 });
const gauge = nullable(Type.Number());

/** What a connector's run has counted so far, and its gauges; null: not known. Counters begin at zero in another run. */
const ReadingSchema = Type.Object({
  runId: Type.String(),
  rowsIn: count,
  rowsDurable: count,
  bytesDurable: count,
  lagSeconds: gauge,
  lagBytes: gauge,
});
export type Reading = Readonly<Static<typeof ReadingSchema>>;

/** Tables that are being copied, and those that wait. */
const LoadSchema = Type.Object({ running: count, waiting: count });
export type CopyLoad = Readonly<Static<typeof LoadSchema>>;

const RunReportSchema = Type.Object({
  form: Type.Literal(reportForm),
  run_id: Type.String(),
  status: ConnectorStatusSchema,
  reading: nullable(ReadingSchema),
  /** The run has ended by itself: complete, or failed for good. */
  is_over: Type.Boolean(),
  load: LoadSchema,
  /** The names of the status' phase and health, for those who look into the state by SQL. */
  phase: Type.Object({ state: Type.String(), health: Type.String() }),
});
export type RunReport = Static<typeof RunReportSchema>;

const TablesSchema = Type.Array(TableStatusSchema);
const checkReport = TypeCompiler.Compile(RunReportSchema);
const checkTables = TypeCompiler.Compile(TablesSchema);

/** Null: what was written is not understood. */
export function parseRunReport(text: string): RunReport | null {
  return understood(text, RunReportSchema, checkReport);
}

/** Null: what was written is not understood. */
export function parseTables(text: string): TableStatus[] | null {
  return understood(text, TablesSchema, checkTables);
}

function understood<Schema extends TSchema>(
  text: string,
  schema: Schema,
  check: { Check(value: unknown): value is Static<Schema> },
): Static<Schema> | null {
  const value = parsed(text);
  if (check.Check(value)) return value;
  // A newer version may say more. The API shows only what its document has.
  const known = Value.Clean(schema, value);
  return check.Check(known) ? known : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
