// The catalog: the tables and columns of a source, and which of them a connector selects. catalog-selection.ts has the rules of
// selection; the source reads a catalog from a server.

import { type Static, Type } from "@sinclair/typebox";
import { freeFormObject, oneOf, secretInput, secretText, strictObject } from "../request/schema-forms.ts";

const ActionSchema = oneOf(["Include", "Exclude"]);

const identifier = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });

const columnFacts = {
  name: identifier("Column name."),
  primary_key: Type.Optional(Type.Boolean({ description: "Part of the primary key." })),
  nullable: Type.Optional(Type.Boolean()),
  data_type: Type.Optional(Type.String({ description: "The type as the source prints it." })),
  supported: Type.Optional(Type.Boolean({ description: "Whether values of the type can be carried." })),
  hash: Type.Optional(freeFormObject("Present: the column's values are replaced by their salted hash.")),
};

const tableFacts = {
  name: identifier("Table name."),
  iceberg_partition_spec: Type.Optional(freeFormObject("Partitioning at an Iceberg sink.")),
  on_mongo_type_conflict: Type.Optional(freeFormObject("What to do about mixed types of a MongoDB field.")),
  target_option: Type.Optional(freeFormObject("Options of the sink for this table.")),
  source_option: Type.Optional(freeFormObject("Options of the source for this table.")),
};

const hashAlgorithm = oneOf(["Sha256"]);
const historyEnabled = Type.Boolean({
  description:
    "Keep every change of the table at a Postgres sink, in a table beside it. A webhook or Kafka gets every change anyway.",
});

// --- request form ----------------------------------------------------------------------------

const ColumnRequestSchema = strictObject({ ...columnFacts, action: Type.Optional(ActionSchema) });

const TableRequestSchema = strictObject({
  ...tableFacts,
  columns: Type.Optional(Type.Array(ColumnRequestSchema)),
  action: Type.Optional(ActionSchema),
  history_enabled: Type.Optional(historyEnabled),
});

const SchemaRequestSchema = strictObject({
  name: identifier("Schema name."),
  tables: Type.Optional(Type.Array(TableRequestSchema)),
  action: Type.Optional(ActionSchema),
});

export const CatalogRequestSchema = strictObject({
  name: Type.Optional(identifier("Catalog (database) name; left out: the connection's database.")),
  schemas: Type.Optional(Type.Array(SchemaRequestSchema)),
  default_action: Type.Optional(ActionSchema),
  column_hashing: Type.Optional(
    strictObject({
      algorithm: Type.Optional(hashAlgorithm),
      salt: secretInput("Put before each value that is hashed."),
    }),
  ),
});
export type CatalogRequest = Static<typeof CatalogRequestSchema>;

// --- full form -------------------------------------------------------------------------------

const ColumnSchema = strictObject({ ...columnFacts, action: ActionSchema });
export type CatalogColumn = Static<typeof ColumnSchema>;

const TableSchema = strictObject({
  ...tableFacts,
  columns: Type.Array(ColumnSchema),
  action: ActionSchema,
  history_enabled: historyEnabled,
});

const SchemaSchema = strictObject({
  name: identifier("Schema name."),
  tables: Type.Array(TableSchema),
  action: ActionSchema,
});

export const CatalogFullSchema = strictObject({
  name: Type.String({ description: "Catalog (database) name." }),
  schemas: Type.Array(SchemaSchema),
  default_action: ActionSchema,
  column_hashing: Type.Optional(
    strictObject({ algorithm: hashAlgorithm, salt: secretText("Put before each value that is hashed.") }),
  ),
});

/**
 * The full form. As read from a source it has `primary_key`, `nullable`, `data_type` and `supported` of every column;
 * in a connector's selection it has what the client sent.
 */
export type Catalog = Static<typeof CatalogFullSchema>;
