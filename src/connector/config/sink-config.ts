// The configuration of a sink: schemas and types of the request form and of the full form. The webhook's are in
// webhook-config.ts, Kafka's in kafka-config.ts; complete-connector.ts fills the defaults.

import { type Static, Type } from "@sinclair/typebox";
import { nullable, oneOf, patternWithoutNul, strictObject, taggedUnion } from "../request/schema-forms.ts";
import { PostgresConnectionRequestSchema, PostgresConnectionSchema } from "./connection.ts";
import { KafkaSinkConfigSchema, KafkaSinkRequestSchema } from "./kafka-config.ts";
import { WebhookSinkConfigSchema, WebhookSinkRequestSchema } from "./webhook-config.ts";

export type { WebhookSinkConfig } from "./webhook-config.ts";

/** Kinds whose names are known, but which are not built: a request with one is refused with `unsupported_kind`. */
export const unbuiltSinkKinds = [
  "clickhouse",
  "snowflake",
  "materialize",
  "databricks",
  "iceberg",
  "doris",
  "duckdb",
  "motherduck",
  "big_query",
  "file_sink",
  "redshift",
] as const;

const targetSchema = nullable(
  Type.String({
    minLength: 1,
    maxLength: 63,
    description: "Schema that all tables are written to; null: each table's own.",
  }),
);
const allowedMigrations = Type.Array(oneOf(["Add", "Drop", "Datatype", "Nullability", "Order"]), {
  uniqueItems: true,
  description: "Changes of a table's shape that are carried over to the sink.",
});
const disableAll = Type.Boolean({ description: "Carry no change of a table's shape over." });

const historySuffix = Type.String({
  minLength: 1,
  maxLength: 32,
  pattern: patternWithoutNul,
  description: "The name of a table's history is the table's own at the sink with this behind it.",
});
const historyModeText = { description: "How the history of tables with `history_enabled` is kept." };
const historyModeRequest = strictObject(
  { append: strictObject({ suffix: Type.Optional(historySuffix) }) },
  historyModeText,
);
const historyMode = strictObject({ append: strictObject({ suffix: historySuffix }) }, historyModeText);

/** What a history is called where nothing is said. */
export const defaultHistorySuffix = "_history";

export const PostgresSinkRequestSchema = strictObject({
  connection: PostgresConnectionRequestSchema,
  target_schema: Type.Optional(targetSchema),
  migration_strategy: Type.Optional(
    strictObject({ allowed: Type.Optional(allowedMigrations), disable_all: Type.Optional(disableAll) }),
  ),
  history_mode: Type.Optional(nullable(historyModeRequest)),
});
export type PostgresSinkRequest = Static<typeof PostgresSinkRequestSchema>;

export const SinkRequestSchema = taggedUnion(
  {
    postgres: Type.Optional(PostgresSinkRequestSchema),
    webhook: Type.Optional(WebhookSinkRequestSchema),
    kafka: Type.Optional(KafkaSinkRequestSchema),
  },
  { description: "Where changes go: one key, which names the kind." },
);
export type SinkRequest = Static<typeof SinkRequestSchema>;

export const PostgresSinkConfigSchema = strictObject({
  connection: PostgresConnectionSchema,
  target_schema: targetSchema,
  migration_strategy: strictObject({ allowed: allowedMigrations, disable_all: disableAll }),
  history_mode: historyMode,
});
/** Every default is filled, secrets are present. */
export type PostgresSinkConfig = Static<typeof PostgresSinkConfigSchema>;

export const SinkConfigSchema = taggedUnion(
  {
    postgres: Type.Optional(PostgresSinkConfigSchema),
    webhook: Type.Optional(WebhookSinkConfigSchema),
    kafka: Type.Optional(KafkaSinkConfigSchema),
  },
  { description: "Where changes go: one key, which names the kind." },
);
/** Has exactly one key. */
export type SinkConfig = Static<typeof SinkConfigSchema>;
