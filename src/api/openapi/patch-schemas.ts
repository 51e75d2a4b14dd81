// Describes the merge patch of a connector (RFC 7396) for the OpenAPI document: the request with every key optional, and
// null where a key may be removed. Pure.

import { isJsonObject } from "../../connector/request/merge-patch.ts";
import {
  asObject,
  type Json,
  type JsonObject,
  mapValues,
  nullableSchema,
  reference,
} from "./openapi-schemas.ts";

const referenceStart = "#/components/schemas/";

/**
 * The schemas with a form for patches of the request and of every object in it: `PostgresSourceRequest` has
 * `PostgresSourcePatch`. `patch` and `request` are names; the patch has a description already.
 */
export function withPatch(
  schemas: JsonObject,
  { patch, request }: { readonly patch: string; readonly request: string },
): JsonObject {
  const made = new Map<string, Json>();

  /** The name of a schema's form for patches, which is made with all that it refers to. */
  function patchOf(name: string): string {
    const patchName = name === request ? patch : `${name.replace(/Request$/, "")}Patch`;
    if (made.has(patchName)) return patchName;
    // Entered first, so that a schema that refers to itself ends.
    made.set(patchName, {});
    made.set(patchName, objectPatch(asObject(schemas[name])));
    return patchName;
  }

  function objectPatch(schema: JsonObject): JsonObject {
    const { properties, required } = Array.isArray(schema.oneOf) ? allKinds(schema.oneOf) : schema;
    const names = Array.isArray(required) ? required : [];
    return {
      type: "object",
      ...(schema.description !== undefined && { description: schema.description }),
      properties: mapValues(asObject(properties), (value, key) => {
        const changed = memberPatch(asObject(value));
        return names.includes(key) ? changed : nullableSchema(changed);
      }),
      additionalProperties: false,
    };
  }

  /** Lists and texts are replaced as a whole. */
  function memberPatch(schema: JsonObject): JsonObject {
    const [whole] = Array.isArray(schema.allOf) ? schema.allOf.map(asObject) : [schema];
    const name = nameIn(whole ?? {});
    return name !== null && isMerged(asObject(schemas[name])) ? reference(patchOf(name)) : schema;
  }

  /** A patch that changes the kind names the old one, as null, beside the new one. */
  function allKinds(variants: readonly Json[]): JsonObject {
    const kinds = variants.map((variant) => asObject(schemas[nameIn(asObject(variant)) ?? ""]));
    return { properties: Object.assign({}, ...kinds.map(({ properties }) => asObject(properties))) };
  }

  patchOf(request);
  const described = { ...asObject(made.get(patch)), ...descriptionOf(schemas[patch]) };
  return { ...schemas, ...Object.fromEntries(made), [patch]: described };
}

function isMerged(schema: JsonObject): boolean {
  return Array.isArray(schema.oneOf) || schema.type === "object";
}

function nameIn({ $ref }: JsonObject): string | null {
  return typeof $ref === "string" ? $ref.slice(referenceStart.length) : null;
}

function descriptionOf(schema: Json | undefined): JsonObject {
  return isJsonObject(schema) && schema.description !== undefined ? { description: schema.description } : {};
}
