// The `schema` of `{"schema","payload"}` in the native form: what the columns' writers make of values, in the words of Kafka Connect.

import { type Column, type Relation, withoutDomain } from "../../change/relation.ts";
import { type ConnectSchema, connectField, plain } from "./connect-schema.ts";
import { arrayElementOid, TypeOid } from "./values/type-oid.ts";

/** The schema of rows of `relation`; `prefix` is the connector's name. Of a delete, only the key's columns have values. */
export function nativeSchema(prefix: string, relation: Relation): ConnectSchema {
  const columns = relation.columns.map((column, index) => ({
    ...nativeColumnSchema(withoutDomain(column)),
    optional: !relation.key.includes(index),
    field: column.name,
  }));
  return {
    type: "struct",
    fields: [
      ...columns,
      connectField("_sm_version", "int64", false),
      connectField("_sm_deleted", "boolean", false),
    ],
    optional: false,
    name: `${prefix}.${relation.schema}.${relation.name}.Value`,
  };
}

/** Of a column whose domain is replaced. */
export function nativeColumnSchema({ typeName, typeOid }: Column): ConnectSchema {
  if (!typeName.endsWith("[]")) return plain(scalarType(typeOid));
  return { type: "array", optional: true, items: plain(scalarType(arrayElementOid(typeOid))) };
}

function scalarType(typeOid: number): string {
  switch (typeOid) {
    case TypeOid.bool:
      return "boolean";
    case TypeOid.int2:
      return "int16";
    case TypeOid.int4:
      return "int32";
    case TypeOid.int8:
    case TypeOid.oid:
      return "int64";
    case TypeOid.float4:
      return "float";
    case TypeOid.float8:
      return "double";
    case TypeOid.bytea:
      return "bytes";
    // Connect has no word for what may be any JSON; a document that is called a string would be read as none.
    case TypeOid.json:
    case TypeOid.jsonb:
      return "json";
    default:
      return "string";
  }
}
