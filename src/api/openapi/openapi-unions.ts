// Describes a tagged union for client generators: one of several objects, each with a single key. The schema that
// checks requests describes the same as an object with exactly one of several keys, because its violations are easier
// to explain. Pure.

type Json = null | boolean | number | string | Json[] | JsonObject;
interface JsonObject {
  [key: string]: Json;
}

/** The schema as `oneOf` if it is a tagged union; otherwise unchanged. */
export function withVariants(schema: JsonObject): JsonObject {
  const { properties, minProperties, maxProperties, additionalProperties: _, required: __, ...rest } = schema;
  const isUnion = minProperties === 1 && maxProperties === 1;
  if (!isUnion || typeof properties !== "object" || properties === null || Array.isArray(properties))
    return schema;
  const variants = Object.entries(properties).map(([kind, value]) => ({
    title: kind,
    type: "object",
    required: [kind],
    properties: { [kind]: value },
    additionalProperties: false,
  }));
  return { ...rest, oneOf: variants };
}
