// The `schema` of `{"schema","payload"}` in the Debezium form: what Kafka Connect's JSON converter embeds.

import type { Relation } from "../../../change/relation.ts";
import { type ConnectField, type ConnectSchema, connectField as field } from "../connect-schema.ts";
import type { ColumnMapping } from "./debezium-column.ts";

const sourceFields: readonly ConnectField[] = [
  field("version", "string", false),
  field("connector", "string", false),
  field("name", "string", false),
  field("ts_ms", "int64", false),
  field("ts_us", "int64", true),
  field("ts_ns", "int64", true),
  {
    ...field("snapshot", "string", true),
    name: "io.debezium.data.Enum",
    version: 1,
    parameters: {
      allowed: "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental",
    },
  },
  field("db", "string", false),
  field("sequence", "string", true),
  field("schema", "string", false),
  field("table", "string", false),
  field("txId", "int64", true),
  field("lsn", "int64", true),
  field("xmin", "int64", true),
];

/** The envelope's schema for rows of `relation`; `prefix` is the connector's name. */
export function envelopeSchema(
  prefix: string,
  relation: Relation,
  columns: readonly ColumnMapping[],
): ConnectSchema {
  const name = `${prefix}.${relation.schema}.${relation.name}`;
  const fields: ConnectField[] = columns.map(({ schema }, index) => ({
    ...schema,
    optional: !relation.key.includes(index),
    field: relation.columns[index]!.name,
  }));
  const row = { type: "struct", fields, optional: true, name: `${name}.Value` };
  return {
    type: "struct",
    fields: [
      { ...row, field: "before" },
      { ...row, field: "after" },
      {
        type: "struct",
        fields: sourceFields,
        optional: false,
        name: "io.debezium.connector.postgresql.Source",
        version: 1,
        field: "source",
      },
      {
        type: "struct",
        fields: [
          field("id", "string", false),
          field("total_order", "int64", false),
          field("data_collection_order", "int64", false),
        ],
        optional: true,
        name: "event.block",
        version: 1,
        field: "transaction",
      },
      field("op", "string", false),
      field("ts_ms", "int64", true),
      field("ts_us", "int64", true),
      field("ts_ns", "int64", true),
    ],
    optional: false,
    name: `${name}.Envelope`,
    version: 2,
  };
}
