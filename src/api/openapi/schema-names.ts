// Gives every object and every member of a union in the OpenAPI document a name of its own. Generators would make up
// names from keys, and one key names several things: a phase and a health both may be `start`. Pure.

import {
  asObject,
  type Json,
  type JsonObject,
  mapValues,
  nullableSchema,
  reference,
} from "./openapi-schemas.ts";

/** The name of a schema, without and with the ending that tells its form. */
interface Name {
  readonly base: string;
  /** Comes last, also in names of parts: `PostgresConnectionTunnelRequest`. */
  readonly ending: string;
}

/**
 * The schemas with each part under a name of its own and a reference in its place. A part of `Status` under the key
 * `last_error` becomes `StatusLastError`; the member `start` of the union `State` becomes `StateStart`.
 *
 * Throws if two would have one name.
 */
export function nameParts(schemas: JsonObject): JsonObject {
  const named = new Map<string, Json>();

  function add(name: string, schema: Json): void {
    if (named.has(name)) throw new Error(`Two schemas of the OpenAPI document have the name ${name}.`);
    named.set(name, schema);
  }

  /** A reference to what is now a schema of its own; what needs no name stays as it is. */
  function extract(value: Json, name: Name): Json {
    const schema = asObject(value);
    if (schema.type === "array") return { ...schema, items: extract(schema.items ?? {}, name) };
    if (!needsName(schema)) return value;
    const { nullable, ...definition } = schema;
    add(textOf(name), withParts(definition, name));
    return nullable === true ? nullableSchema(reference(textOf(name))) : reference(textOf(name));
  }

  function withParts(schema: JsonObject, name: Name): JsonObject {
    if (Array.isArray(schema.oneOf)) {
      return { ...schema, oneOf: schema.oneOf.map((variant) => extractVariant(asObject(variant), name)) };
    }
    if (schema.type === "array") return { ...schema, items: extract(schema.items ?? {}, part(name, "item")) };
    if (schema.properties === undefined) return schema;
    const properties = mapValues(asObject(schema.properties), (value, key) =>
      extract(value, part(name, asObject(value).type === "array" ? singular(key) : key)),
    );
    return { ...schema, properties };
  }

  function extractVariant(variant: JsonObject, union: Name): Json {
    const [[kind, value] = ["", null]] = Object.entries(asObject(variant.properties));
    const name = part(union, kind);
    add(textOf(name), { ...variant, properties: { [kind]: extract(value, part(name, "value")) } });
    return reference(textOf(name));
  }

  for (const [name, schema] of Object.entries(schemas)) add(name, withParts(asObject(schema), nameOf(name)));
  return Object.fromEntries(named);
}

/** An object without keys of its own is a map or `{}` in every language. */
function needsName(schema: JsonObject): boolean {
  return Array.isArray(schema.oneOf) || Object.keys(asObject(schema.properties)).length > 0;
}

function nameOf(text: string): Name {
  const ending = "Request";
  return text.endsWith(ending) ? { base: text.slice(0, -ending.length), ending } : { base: text, ending: "" };
}

function textOf({ base, ending }: Name): string {
  return base + ending;
}

function part({ base, ending }: Name, key: string): Name {
  const words = key.split("_").filter((word) => word !== "");
  return {
    base: base + words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join(""),
    ending,
  };
}

function singular(key: string): string {
  return key.endsWith("s") ? key.slice(0, -1) : `${key}_item`;
}
