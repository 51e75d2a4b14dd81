// A tagged union for generators of clients: one of several objects, each with its one key. The schema that requests are checked by says
// the same as an object with exactly one of several keys, of which its violations are told better. Pure.

type Json = null | boolean | number | string | Json[] | JsonObject;
interface JsonObject {
  [key: string]: Json;
}

/** The schema as `oneOf`, when it is a tagged union; as it is, when it is none. */
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
