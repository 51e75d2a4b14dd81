// OIDs of the built-in types that the formats treat in their own way. They are the same on every server.
// https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat

import type { Column } from "../../../change/relation.ts";

export const TypeOid = {
  bool: 16,
  bytea: 17,
  char: 18,
  name: 19,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  oid: 26,
  json: 114,
  xml: 142,
  point: 600,
  box: 603,
  float4: 700,
  float8: 701,
  money: 790,
  bpchar: 1042,
  varchar: 1043,
  date: 1082,
  time: 1083,
  timestamp: 1114,
  timestamptz: 1184,
  interval: 1186,
  timetz: 1266,
  bit: 1560,
  varbit: 1562,
  numeric: 1700,
  uuid: 2950,
  jsonb: 3802,
} as const;

/** Array type to element type, for elements that are not written as plain text. */
const elements: ReadonlyMap<number, number> = new Map([
  [1000, TypeOid.bool],
  [1001, TypeOid.bytea],
  [1005, TypeOid.int2],
  [1007, TypeOid.int4],
  [1016, TypeOid.int8],
  [1028, TypeOid.oid],
  [1020, TypeOid.box],
  [1021, TypeOid.float4],
  [1022, TypeOid.float8],
  [199, TypeOid.json],
  [3807, TypeOid.jsonb],
  [1115, TypeOid.timestamp],
  [1182, TypeOid.date],
  [1183, TypeOid.time],
  [1185, TypeOid.timestamptz],
  [1187, TypeOid.interval],
  [1231, TypeOid.numeric],
  [1270, TypeOid.timetz],
  [1009, TypeOid.text],
  [1015, TypeOid.varchar],
  [1014, TypeOid.bpchar],
  [1003, TypeOid.name],
  [1002, TypeOid.char],
  [2951, TypeOid.uuid],
  [143, TypeOid.xml],
  [791, TypeOid.money],
  [1017, TypeOid.point],
  [1561, TypeOid.bit],
  [1563, TypeOid.varbit],
]);

/** OID of an array's elements; 0 for a type that is only known as text. */
export function arrayElementOid(arrayOid: number): number {
  return elements.get(arrayOid) ?? 0;
}

/** What stands between the elements in the text of an array. */
export function arrayDelimiter(column: Column): string {
  return column.arrayDelimiter ?? (arrayElementOid(column.typeOid) === TypeOid.box ? ";" : ",");
}
