// What a webhook is to receive of a row, worked out from Postgres' own text and not from the sink's code.

import { quoted, type TortureColumn, type TortureTable } from "./torture-tables.ts";
import type { JsonKind } from "./value-case.ts";

/** A JSON number, digit for digit. */
export interface ExactNumber {
  readonly digits: string;
}

const numberOf = (digits: string): ExactNumber => ({ digits });

/** JSON in which no number has become a double. */
export function parseExactly(json: string): unknown {
  return JSON.parse(
    json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) =>
      token.startsWith('"') ? token : JSON.stringify(numberOf(token)),
    ),
  );
}

/** One row of the table for each of its own: the values' texts, an array's as a JSON array of its elements' texts. */
export function textsSql(table: TortureTable): string {
  const values = table.columns.map((column) => {
    const name = quoted(column.name);
    return `case when ${name} is distinct from null then ${textSql(column, name)} end`;
  });
  return `set extra_float_digits = 3; set timezone = 'UTC'; set intervalstyle = postgres; set search_path = '';
    select array[${[`${quoted(table.keyColumn)}::text`, ...values].join(", ")}]::text[] as row from ${table.sqlName}`;
}

function textSql({ isArray, type }: TortureColumn, name: string): string {
  if (!isArray) return `pg_catalog.format('%s', ${name})`;
  // These have a delimiter of their own.
  const isPlain = !/box\[\]$|\.semi\[\]$|\.boxes(\[\])?$/.test(type);
  return `pg_catalog.array_to_json(${isPlain ? `pg_catalog.format('%s', ${name})` : name}::text[])::text`;
}

export function expectedJson(column: TortureColumn, text: string | null): unknown {
  if (text === null) return null;
  return column.isArray ? nested(column.json, JSON.parse(text)) : scalar(column.json, text);
}

function nested(kind: JsonKind, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => nested(kind, each));
  return value === null ? null : scalar(kind, value as string);
}

function scalar(kind: JsonKind, text: string): unknown {
  switch (kind) {
    case "number":
      return numberOf(text);
    case "float":
      return /^(NaN|-?Infinity)$/.test(text) ? text : numberOf(text);
    case "boolean":
      return text === "t";
    case "json":
      return parseExactly(text);
    case "timestamp":
      return /infinity|BC$/.test(text) ? text : text.replace(" ", "T").replace(/\+00$/, "Z");
    case "zoned time":
      return text.replace(/\+00$/, "Z").replace(/([+-]\d\d)$/, "$1:00");
    case "base64":
      return Buffer.from(text.slice(2), "hex").toString("base64");
    case "text":
      return text;
    default:
      return kind satisfies never;
  }
}
