// Turns schemas of requests and responses into OpenAPI 3.0's dialect: null in 3.0's form, unions as `oneOf`, and a
// reference in the place of each named schema. Pure.

import {
  isJsonObject,
  type JsonValue as Json,
  type JsonObject,
} from "../../connector/request/merge-patch.ts";
import { patternWithoutNul } from "../../connector/request/schema-forms.ts";

export type { Json, JsonObject };

/** A schema in OpenAPI 3.0's dialect. A named schema becomes a reference. */
export function convertSchema(schema: Json, names: ReadonlyMap<string, string>): Json {
  if (Array.isArray(schema)) return schema.map((item) => convertSchema(item, names));
  if (!isJsonObject(schema)) return schema;
  const name = names.get(JSON.stringify(schema));
  if (name !== undefined) return reference(name);
  if (schema.type === "null") return alwaysNull(schema);
  const variants = Array.isArray(schema.anyOf) ? schema.anyOf.map(asObject) : [];
  const [variant] = variants.filter(({ type }) => type !== "null");
  if (variants.length === 2 && variants.some(({ type }) => type === "null") && variant) {
    return nullableSchema(asObject(convertSchema(variant, names)));
  }
  return convertMembers(schema, names);
}

export function convertMembers(schema: JsonObject, names: ReadonlyMap<string, string>): JsonObject {
  const isPlain = (key: string) => key === "enum" || key === "required";
  return withVariants(
    mapValues(withoutRepetition(schema), (value, key) =>
      isPlain(key) ? value : convertSchema(value, names),
    ),
  );
}

export function reference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** OpenAPI 3.0 ignores every other key beside a `$ref`. */
export function nullableSchema(schema: JsonObject): JsonObject {
  return "$ref" in schema ? { allOf: [schema], nullable: true } : { ...schema, nullable: true };
}

export function mapValues(object: JsonObject, change: (value: Json, key: string) => Json): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}

export function asObject(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** 3.0 has no type for null. Generators fail at an enum that holds null alone, and each knows a nullable object. */
function alwaysNull({ description }: JsonObject): JsonObject {
  return {
    type: "object",
    nullable: true,
    not: { type: "object" },
    description: description ?? "Always null.",
  };
}

/**
 * Leaves out what the document says elsewhere: the pattern of an enum, the rule about NUL, which holds for every text,
 * and properties that are a second name of another one. In many languages both names would be the same identifier.
 */
function withoutRepetition(schema: JsonObject): JsonObject {
  const { pattern, ...rest } = schema;
  if (pattern !== undefined && (schema.enum || pattern === patternWithoutNul)) return rest;
  if (!isJsonObject(schema.properties)) return schema;
  const properties = Object.entries(schema.properties).filter(([, value]) => !isAlias(value));
  return { ...schema, properties: Object.fromEntries(properties) };
}

function isAlias(schema: Json): boolean {
  return isJsonObject(schema) && "x-alias-of" in schema;
}

/**
 * Describes a tagged union for client generators: one of several objects, each with a single key. The schema that
 * checks requests describes the same as an object with exactly one of several keys, because its violations are easier
 * to explain.
 */
function withVariants(schema: JsonObject): JsonObject {
  const { properties, minProperties, maxProperties, additionalProperties: _, required: __, ...rest } = schema;
  if (minProperties !== 1 || maxProperties !== 1 || !isJsonObject(properties)) return schema;
  const { type: ___, ...described } = rest;
  const variants = Object.entries(properties).map(([kind, value]) => ({
    type: "object",
    required: [kind],
    properties: { [kind]: value },
    additionalProperties: false,
  }));
  return { ...described, oneOf: variants };
}
