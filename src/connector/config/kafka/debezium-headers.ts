// The headers of Debezium's messages at a Kafka sink: schemas, defaults, the names that they are sent under, and clashes
// between these. Pure; the sink sets their values.

import { type Static, Type } from "@sinclair/typebox";
import type { Violation } from "../../../errors/millrace-error.ts";
import { strictObject } from "../../request/schema-forms.ts";

/** Headers that a switch turns on, by the switch. */
const switched = ["op", "db", "schema", "tbl", "context"] as const;
type SwitchedHeader = (typeof switched)[number];

/** Those of a change of the key, which `pk_update` turns on. Consumers know them by these names. */
export const newKeyHeader = "__debezium.newkey";
export const oldKeyHeader = "__debezium.oldkey";

const headerName = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: "^[\\x21-\\x7e]+$",
    description: `${description} Visible ASCII characters without blanks.`,
  });

const switches = {
  op: Type.Boolean({ description: "Send the operation: c, u, d, r or t. Left out: false." }),
  db: Type.Boolean({ description: "Send the source database's name. Left out: false." }),
  schema: Type.Boolean({ description: "Send the source schema's name. Left out: false." }),
  tbl: Type.Boolean({ description: "Send the source table's name. Left out: false." }),
  context: Type.Boolean({ description: "Send the connector's id. Left out: false." }),
  pk_update: Type.Boolean({
    description: `Where a key changes, send the other key: \`${newKeyHeader}\` with the DELETE, \`${oldKeyHeader}\` with the INSERT. Left out: true.`,
  }),
};
const prefix = Type.String({
  maxLength: 128,
  pattern: "^[\\x21-\\x7e]*$",
  description: "Stands before the name of each switched header that has no name of its own. Left out: `__`.",
});
const sourceTemplate = Type.String({
  minLength: 1,
  maxLength: 1024,
  pattern: "^(?:[^\\{\\}\\x01-\\x1f\\x7f]|\\{database\\}|\\{schema\\}|\\{table\\}|\\{connector\\})+$",
  description:
    "Value of the header `source_name`; `{database}`, `{schema}`, `{table}` and `{connector}` are replaced. The two go together.",
});
const names = {
  op_name: Type.Optional(headerName("Whole name of the header of `op`.")),
  db_name: Type.Optional(headerName("Whole name of the header of `db`.")),
  schema_name: Type.Optional(headerName("Whole name of the header of `schema`.")),
  tbl_name: Type.Optional(headerName("Whole name of the header of `tbl`.")),
  context_name: Type.Optional(headerName("Whole name of the header of `context`.")),
  source_name: Type.Optional(
    headerName("Whole name of one more header, with `source_template` as its value."),
  ),
  source_template: Type.Optional(sourceTemplate),
};

export const DebeziumHeadersRequestSchema = strictObject({
  op: Type.Optional(switches.op),
  db: Type.Optional(switches.db),
  schema: Type.Optional(switches.schema),
  tbl: Type.Optional(switches.tbl),
  context: Type.Optional(switches.context),
  pk_update: Type.Optional(switches.pk_update),
  prefix: Type.Optional(prefix),
  ...names,
});
type DebeziumHeadersRequest = Static<typeof DebeziumHeadersRequestSchema>;

export const DebeziumHeadersSchema = strictObject({ ...switches, prefix, ...names });
/** Every default is filled. */
export type DebeziumHeaders = Static<typeof DebeziumHeadersSchema>;

export function completeHeaders(headers: DebeziumHeadersRequest): DebeziumHeaders {
  return {
    ...headers,
    op: headers.op ?? false,
    db: headers.db ?? false,
    schema: headers.schema ?? false,
    tbl: headers.tbl ?? false,
    context: headers.context ?? false,
    pk_update: headers.pk_update ?? true,
    prefix: headers.prefix ?? "__",
  };
}

/** The names of the switched headers that are on. */
export function headerNames(headers: DebeziumHeaders): Partial<Record<SwitchedHeader, string>> {
  const on = switched.filter((header) => headers[header]);
  return Object.fromEntries(
    on.map((header) => [header, headers[`${header}_name`] ?? `${headers.prefix}${header}`]),
  );
}

/** Each header needs a name of its own, and `source_name` its value. `path` is the headers' own. */
export function headerViolations(headers: DebeziumHeadersRequest, path: string): Violation[] {
  return [...sourceViolations(headers, path), ...nameClashes(completeHeaders(headers), path)];
}

function sourceViolations(
  { source_name: name, source_template: template }: DebeziumHeadersRequest,
  path: string,
): Violation[] {
  if ((name === undefined) === (template === undefined)) return [];
  const [missing, given] =
    name === undefined ? ["source_name", "source_template"] : ["source_template", "source_name"];
  return [{ path: `${path}/${missing}`, message: `required with ${given}; or leave both out` }];
}

function nameClashes(headers: DebeziumHeaders, path: string): Violation[] {
  const taken = new Set(headers.pk_update ? [newKeyHeader, oldKeyHeader] : []);
  const chosen: [string, string][] = Object.entries(headerNames(headers)).map(([header, name]) => [
    headers[`${header as SwitchedHeader}_name`] === undefined ? header : `${header}_name`,
    name,
  ]);
  if (headers.source_name !== undefined) chosen.push(["source_name", headers.source_name]);
  return chosen.flatMap(([key, name]): Violation[] => {
    const isTaken = taken.has(name);
    taken.add(name);
    return isTaken ? [{ path: `${path}/${key}`, message: "another header has this name" }] : [];
  });
}
