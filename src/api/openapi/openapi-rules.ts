// Rules that code checks rather than a schema (check-request.ts, unusable-json.ts), as far as OpenAPI 3.0 can state them;
// it has no `if`. The descriptions of the fields say the rest. Pure.

import { neverStatic } from "../../connector/config/webhook-headers.ts";
import { asObject, type JsonObject } from "./openapi-schemas.ts";

/** Holds for every body, before any schema is looked at. */
export const textRule =
  "No text or key of a body may hold NUL (U+0000) or half of a surrogate pair, and no object may hold a key twice.";

/** Keywords for a schema, or for one of its properties. */
interface Rule {
  readonly schema: string;
  readonly property?: string;
  readonly keywords: JsonObject;
}

/** A schedule is for copies alone. This describes what is refused: one together with changes that are streamed. */
const scheduleOfStream: JsonObject = {
  type: "object",
  required: ["schedule", "source"],
  properties: {
    schedule: { type: "object" },
    source: {
      type: "object",
      required: ["postgres"],
      properties: {
        postgres: {
          type: "object",
          required: ["replication_type"],
          properties: { replication_type: { type: "object", required: ["logical_replication"] } },
        },
      },
    },
  },
};

const excludedKeyColumn: JsonObject = {
  type: "object",
  required: ["primary_key", "action"],
  properties: {
    primary_key: { type: "boolean", enum: [true] },
    action: { type: "string", enum: ["Exclude"] },
  },
};

/** JSON Schema has no flag for it. */
function inAnyCase(name: string): string {
  return name.replaceAll(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`);
}

const rules: readonly Rule[] = [
  { schema: "ConnectorRequest", keywords: { not: scheduleOfStream } },
  { schema: "CatalogColumnRequest", keywords: { not: excludedKeyColumn } },
  {
    schema: "CatalogColumnRequest",
    property: "hash",
    keywords: {
      description:
        "Present: the column's values are replaced by their salted hash. Needs `column_hashing` in the catalog.",
    },
  },
  {
    schema: "CatalogRequest",
    keywords: {
      description:
        "What is copied and streamed. No schema, no table of a schema and no column of a table is listed twice.",
    },
  },
  {
    schema: "ScheduleCronValue",
    property: "expression",
    keywords: {
      pattern: "^\\s*[0-9A-Za-z*,\\/\\-]+(?:[ \\t]+[0-9A-Za-z*,\\/\\-]+){4}\\s*$",
      description:
        "Minute (0 to 59), hour (0 to 23), day of the month (1 to 31), month (1 to 12, or jan to dec), day of the week " +
        "(0 to 7, or sun to sat). Each is `*`, `n`, `n-m` with n up to m, either of these with a `/step`, or a list of them. A time that " +
        "never comes, as on 30 February, is refused.",
    },
  },
  {
    schema: "ScheduleCronValue",
    property: "timezone",
    keywords: {
      pattern: "^[A-Za-z]",
      description:
        "Name of the IANA time zone database, as `Europe/Berlin`. An offset as `+01:00` is refused.",
    },
  },
  {
    schema: "PostgresSinkRequest",
    property: "target_schema",
    keywords: {
      not: { type: "string", pattern: "^(?:pg_|information_schema$|millrace$)" },
      description:
        "Schema that all tables are written to, of at most 63 bytes in UTF-8; null: each table's own. `information_schema`, `millrace` " +
        "and what begins with `pg_` is refused.",
    },
  },
  {
    schema: "WebhookSinkHeadersRequest",
    keywords: {
      description:
        "The headers that are sent have names of their own, whatever their case, and none is one that the HTTP client sets: " +
        "`Content-Type`, `Content-Encoding`, `Content-Length`, `Host`, `Connection`, `Transfer-Encoding` and the like. Static headers " +
        "yield to these, to `auth`, to `Content-Type` and to `Content-Encoding`.",
    },
  },
  {
    schema: "WebhookSinkHeadersStaticItemRequest",
    property: "name",
    keywords: {
      not: { type: "string", pattern: `^(?:${neverStatic.map(inAnyCase).join("|")})$` },
      description:
        "Name of the header. No two static headers have one name, whatever its case. Headers that the HTTP client sets are refused, " +
        "and with `signing` those of the signature.",
    },
  },
  {
    schema: "IdentifierNamingFivetranNamingRequest",
    keywords: {
      description: "At a Postgres sink; a webhook and Kafka get the source's names, and refuse this.",
    },
  },
];

/**
 * The schemas with the rules in them. Throws if there is no such schema or property, so that a rule does not go missing.
 *
 * @param schemas by name, their parts too
 */
export function withRules(schemas: JsonObject): JsonObject {
  return rules.reduce(withRule, schemas);
}

function withRule(schemas: JsonObject, { schema: name, property, keywords }: Rule): JsonObject {
  const schema = asObject(schemas[name]);
  const properties = asObject(schema.properties);
  if (schemas[name] === undefined || (property !== undefined && properties[property] === undefined))
    throw new Error(`The OpenAPI document has no ${name} ${property ?? ""}.`);
  const changed =
    property === undefined
      ? { ...schema, ...keywords }
      : {
          ...schema,
          properties: { ...properties, [property]: { ...asObject(properties[property]), ...keywords } },
        };
  return { ...schemas, [name]: changed };
}
