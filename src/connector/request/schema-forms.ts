// The building blocks of all schemas of a connector, so that all are equally strict and read well in the OpenAPI
// document.

import { FormatRegistry, type ObjectOptions, type TProperties, type TSchema, Type } from "@sinclair/typebox";

// TypeBox refuses unknown formats. This one tells clients to hide the input.
FormatRegistry.Set("password", () => true);

/** An object that refuses unknown keys, so that a typo never silently changes what is replicated. */
export function strictObject<P extends TProperties>(properties: P, options: ObjectOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/**
 * An object with exactly one key, which names the kind. As one object rather than a union, so that a violation has its
 * exact path. The properties must all be `Type.Optional`.
 */
export function taggedUnion<P extends TProperties>(properties: P, options: ObjectOptions = {}) {
  return Type.Object(properties, {
    ...options,
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
  });
}

/** A kind or a switch without settings: `{}`. */
export function emptyObject(description?: string) {
  return strictObject({}, description === undefined ? {} : { description });
}

export const optionalFields = <P extends TProperties>(properties: P) =>
  Type.Partial(strictObject(properties), { additionalProperties: false });

export function nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

/** One of several words, case-sensitive. */
export function oneOf<const T extends readonly string[]>(words: T, options: { description?: string } = {}) {
  const pattern = `^(?:${words.join("|")})$`;
  return Type.Unsafe<T[number]>({ ...Type.String({ pattern }), enum: [...words], ...options });
}

/** A whole number from `minimum` to `maximum`; by default from 0 to the largest that all clients support. */
export function wholeNumber(options: { minimum?: number; maximum?: number; description?: string } = {}) {
  return Type.Integer({ minimum: 0, maximum: 2_147_483_647, ...options });
}

/** The pattern of texts for Postgres' wire protocol, in which a NUL byte ends a text. */
export const patternWithoutNul = "^[^\\u0000]+$";

/** An object with arbitrary keys. */
export function freeFormObject(description: string) {
  return Type.Object({}, { additionalProperties: true, description });
}

/** A value that is never shown: responses have `"***"`. */
export function secretText(description: string) {
  return Type.String({ format: "password", description });
}

/** A secret in a request. If it is left out or `"***"`, the stored one is used. */
export function secretInput(description: string) {
  return Type.Optional(secretText(description));
}

/** Like `secretInput`; an explicit `null` clears it. */
export function clearableSecretInput(description: string) {
  return Type.Optional(nullable(secretText(description)));
}

/** A time: RFC 3339, UTC, with milliseconds, as `Date.prototype.toISOString` prints it. */
export function timestamp(description = "RFC 3339, UTC, with milliseconds.") {
  return Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$", description });
}
