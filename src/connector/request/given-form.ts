// The given form of a connector: what the client gave, with the defaults of scalars inside the objects that it gave. An
// object, a list or a text that it did not give is absent. So a client that compares what it sent with what it reads
// finds no difference. complete-connector.ts makes the full form of it. Pure.

import { Kind, type TSchema } from "@sinclair/typebox";
import { type ConnectorConfig, type ConnectorRequest, ConnectorRequestSchema } from "../connector.ts";
import { completeConnector } from "./complete-connector.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./merge-patch.ts";

/** What an answer says in any case, also where nobody gave it. */
const namedWhenAbsent = { name: null, buffer: null, limits: null, schedule: null, identifier_naming: null };

/** `request` has passed `checkConnectorRequest`, and its secrets are filled. */
export function givenForm(request: ConnectorRequest, id: string): ConnectorRequest {
  const named = { ...namedWhenAbsent, ...request, id };
  const full = completeConnector(named, id);
  return withScalars(ConnectorRequestSchema, asJson(named), asJson(full)) as unknown as ConnectorRequest;
}

/**
 * What a client may have given for a connector that an earlier version stored in full form: everything but the objects,
 * lists and texts that equal their defaults. Its full form is `full`.
 */
export function inferGivenForm(full: ConnectorConfig): ConnectorRequest {
  const stored = asJson(full);
  const bare = requiredMembers(ConnectorRequestSchema, stored) as unknown as ConnectorRequest;
  const defaults = asJson(completeConnector(bare, full.id));
  const given = withoutDefaults(ConnectorRequestSchema, stored, defaults);
  return givenForm(given as unknown as ConnectorRequest, full.id);
}

function withScalars(schema: TSchema, given: JsonValue, full: JsonValue | undefined): JsonValue {
  const known = knownType(schema);
  if (Array.isArray(given) && known.items) {
    const items: TSchema = known.items;
    return given.map((item, index) =>
      withScalars(items, item, Array.isArray(full) ? full[index] : undefined),
    );
  }
  const members = membersOf(known);
  if (!isJsonObject(given) || members.length === 0) return given;
  const defaults = isJsonObject(full) ? full : {};
  const filled = members.flatMap(([key, member]): [string, JsonValue][] => {
    const [value, standard] = [given[key], defaults[key]];
    if (value !== undefined) return [[key, withScalars(member, value, standard)]];
    return isScalar(member) && standard !== undefined ? [[key, standard]] : [];
  });
  return Object.fromEntries(filled);
}

/** Of a union the kind that is there. */
function requiredMembers(schema: TSchema, value: JsonValue): JsonValue {
  const members = membersOf(schema);
  if (!isJsonObject(value) || members.length === 0) return value;
  const needed = members.filter(([key]) => isTaggedUnion(schema) || schema.required?.includes(key));
  return mapMembers(needed, value, requiredMembers);
}

function withoutDefaults(schema: TSchema, value: JsonValue, defaults: JsonValue | undefined): JsonValue {
  const known = knownType(schema);
  if (Array.isArray(value) && known.items) {
    const items: TSchema = known.items;
    return value.map((item) => withoutDefaults(items, item, undefined));
  }
  const members = membersOf(known);
  if (!isJsonObject(value) || members.length === 0) return value;
  const standards = isJsonObject(defaults) ? defaults : {};
  const given = members.filter(([key, member]) => {
    const isKept = isTaggedUnion(known) || known.required?.includes(key) || isScalar(member);
    return isKept || !isDefault(value[key], standards[key]);
  });
  return mapMembers(given, value, (member, each, key) => withoutDefaults(member, each, standards[key]));
}

/** What is absent from the defaults has an empty default: it is a part of something that was given. */
function isDefault(value: JsonValue | undefined, standard: JsonValue | undefined): boolean {
  if (standard !== undefined) return Bun.deepEquals(value, standard);
  return value === null || (Array.isArray(value) && value.length === 0);
}

// --- schemas ---------------------------------------------------------------------------------

type Members = readonly (readonly [string, TSchema])[];

function mapMembers(
  members: Members,
  value: JsonObject,
  change: (member: TSchema, value: JsonValue, key: string) => JsonValue,
): JsonObject {
  const changed = members.flatMap(([key, member]): [string, JsonValue][] => {
    const each = value[key];
    return each === undefined ? [] : [[key, change(member, each, key)]];
  });
  return Object.fromEntries(changed);
}

function membersOf(schema: TSchema): Members {
  return Object.entries((schema.properties ?? {}) as Record<string, TSchema>);
}

/** A nullable schema without its null. */
function knownType(schema: TSchema): TSchema {
  const variants: readonly TSchema[] = schema.anyOf ?? [];
  return variants.find((variant) => variant[Kind] !== "Null") ?? schema;
}

function isTaggedUnion(schema: TSchema): boolean {
  return schema.minProperties === 1 && schema.maxProperties === 1;
}

/** A number, a switch, or one of several words; not a text. */
function isScalar(schema: TSchema): boolean {
  return schema.enum !== undefined || ["boolean", "integer", "number"].includes(schema.type);
}

function asJson(connector: ConnectorRequest | ConnectorConfig): JsonValue {
  return connector as unknown as JsonValue;
}
