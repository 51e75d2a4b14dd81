// A connector: one source and one sink. Schemas and types of the request form, in which nearly everything is optional,
// and of the full form, in which every default is filled. resolve-connector.ts turns the one into the other. What is
// stored and shown is in the given form, a request whose scalars are filled: see given-form.ts.

import { type Static, Type } from "@sinclair/typebox";
import { BufferRequestSchema } from "./config/buffer-config.ts";
import { SinkConfigSchema, SinkRequestSchema } from "./config/sink-config.ts";
import { SourceConfigSchema, SourceRequestSchema } from "./config/source-config.ts";
import {
  emptyObject,
  nullable,
  oneOf,
  strictObject,
  taggedUnion,
  timestamp,
  wholeNumber,
} from "./request/schema-forms.ts";
import { ConnectorStatusSchema } from "./status.ts";

const displayName = nullable(Type.String({ minLength: 1, maxLength: 255, description: "Name for people." }));
const disabled = Type.Boolean({ description: "A disabled connector is stored and does not run." });
const emptyBuffer = nullable(emptyObject("Empty: nothing is buffered between source and sink."));

const flushInterval = wholeNumber({
  maximum: 3_600_000,
  description: "In milliseconds; 0: built-in default.",
});
const bufferRows = wholeNumber({ description: "Most rows held in memory; 0: built-in default." });
const copiedRows = wholeNumber({
  description:
    "Most rows of each table's copy that are in requests and not delivered, at a webhook; a request holds no more either. 0: a bound " +
    "in bytes alone, which holds in any case. A Postgres sink is sent bytes as they come, and no row is held for it.",
});

const verifyHours = wholeNumber({
  maximum: 8_760,
  description:
    "Compare each table at a Postgres sink with its source when it was last compared so many hours ago, one after the other; 0: never.",
});
const verifyLanes = wholeNumber({
  maximum: 4,
  description:
    "How many parts of a large table each side reads at once for a comparison, each in a session and a process of the server; 0: two.",
});

const receiptsHours = wholeNumber({
  maximum: 8_760,
  description:
    "How long it is kept what became of each request to a webhook, or message to Kafka, for `explain`; 0: nothing is kept.",
});
const receiptsMaxBytes = wholeNumber({
  minimum: 1_048_576,
  maximum: 1_099_511_627_776,
  description: "Bytes that this takes in the service's state at most. The oldest go first.",
});

const ScheduleSchema = taggedUnion(
  {
    rate: Type.Optional(
      strictObject({
        value: wholeNumber({ minimum: 1, maximum: 100_000 }),
        unit: oneOf(["Minute", "Hour", "Day"]),
      }),
    ),
    cron: Type.Optional(
      strictObject({
        expression: Type.String({ minLength: 1, maxLength: 255, description: "Five fields." }),
        timezone: Type.String({ minLength: 1, maxLength: 64, description: "Name of the IANA database." }),
      }),
    ),
  },
  { description: "When to copy again; with `replication_type` `snapshot` only." },
);
const schedule = nullable(ScheduleSchema);

const schemaPrefix = nullable(Type.String({ minLength: 1, maxLength: 63 }));
const ColumnConflictSchema = oneOf(["Fail", "KeepFirst"]);
const TableConflictSchema = oneOf(["Merge", "Fail"]);

// --- request form ----------------------------------------------------------------------------

const LimitsRequestSchema = strictObject({
  cdc: Type.Optional(
    strictObject({
      flush_interval_ms: Type.Optional(flushInterval),
      max_buffer_rows: Type.Optional(bufferRows),
    }),
  ),
  snapshot: Type.Optional(strictObject({ max_buffer_rows: Type.Optional(copiedRows) })),
  verify: Type.Optional(
    strictObject({ every_hours: Type.Optional(verifyHours), lanes: Type.Optional(verifyLanes) }),
  ),
  receipts_hours: Type.Optional(receiptsHours),
  receipts_max_bytes: Type.Optional(receiptsMaxBytes),
});

const IdentifierNamingRequestSchema = taggedUnion({
  SourceNaming: Type.Optional(emptyObject("Names as they are at the source.")),
  FivetranNaming: Type.Optional(
    strictObject({
      schema_prefix: Type.Optional(schemaPrefix),
      column_conflict: Type.Optional(ColumnConflictSchema),
      table_conflict: Type.Optional(TableConflictSchema),
    }),
  ),
});

export const ConnectorRequestSchema = strictObject({
  id: Type.String({
    description:
      "Ignored where the server makes the id, or the path has it. Where the path has it, it may be left out.",
  }),
  source: SourceRequestSchema,
  sink: SinkRequestSchema,
  buffer: Type.Optional(BufferRequestSchema),
  limits: Type.Optional(nullable(LimitsRequestSchema)),
  disabled: Type.Optional(disabled),
  schedule: Type.Optional(schedule),
  name: Type.Optional(displayName),
  identifier_naming: Type.Optional(nullable(IdentifierNamingRequestSchema)),
});
export type ConnectorRequest = Static<typeof ConnectorRequestSchema>;

// --- full form -------------------------------------------------------------------------------

const LimitsSchema = strictObject({
  cdc: strictObject({ flush_interval_ms: flushInterval, max_buffer_rows: bufferRows }),
  snapshot: strictObject({ max_buffer_rows: copiedRows }),
  verify: strictObject({ every_hours: verifyHours, lanes: verifyLanes }),
  receipts_hours: receiptsHours,
  receipts_max_bytes: receiptsMaxBytes,
});
export type Limits = Static<typeof LimitsSchema>;

const IdentifierNamingSchema = taggedUnion({
  SourceNaming: Type.Optional(emptyObject("Names as they are at the source.")),
  FivetranNaming: Type.Optional(
    strictObject({
      schema_prefix: schemaPrefix,
      column_conflict: ColumnConflictSchema,
      table_conflict: TableConflictSchema,
    }),
  ),
});
export type IdentifierNaming = Static<typeof IdentifierNamingSchema>;

export const ConnectorConfigSchema = strictObject({
  id: Type.String(),
  name: displayName,
  disabled,
  source: SourceConfigSchema,
  sink: SinkConfigSchema,
  buffer: emptyBuffer,
  limits: LimitsSchema,
  schedule,
  identifier_naming: IdentifierNamingSchema,
});
/** The full form: every default is filled, `id` and secrets are present. */
export type ConnectorConfig = Static<typeof ConnectorConfigSchema>;

const facts = {
  status: ConnectorStatusSchema,
  run_id: Type.String({ description: "UUIDv7 of the last run." }),
  created_at: timestamp(),
};

/** A new connector as the API shows it: in full form, with secrets redacted. */
export const ConnectorWithStatusSchema = strictObject({ connector: ConnectorConfigSchema, ...facts });
export type ConnectorWithStatus = Static<typeof ConnectorWithStatusSchema>;

/** A stored connector as the API shows it: in given form (`givenForm`), with secrets redacted. */
export const GivenConnectorSchema = strictObject({ connector: ConnectorRequestSchema, ...facts });
export type GivenConnector = Static<typeof GivenConnectorSchema>;

/** The commands to a stored connector. `ReIntialize` is spelled as clients send it. */
export const CommandSchema = oneOf([
  "Start",
  "Stop",
  "Restart",
  "Resume",
  "ReIntialize",
  "ReInitialize",
  "Delete",
  "ForceDelete",
]);
export type Command = Static<typeof CommandSchema>;
