// The few forms that every schema of a connector is made of, so that all of them are strict in the same way
// and read well in the OpenAPI document. What a connector consists of stands in the files beside this one.

import { FormatRegistry, type ObjectOptions, type TProperties, type TSchema, Type } from "@sinclair/typebox";

// TypeBox refuses a format that it does not know. This one only tells clients to hide what is typed.
FormatRegistry.Set("password", () => true);

/** An object that refuses unknown keys: a typo never silently changes what is replicated. */
export function strictObject<P extends TProperties>(properties: P, options: ObjectOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/**
 * An object with exactly one key, which names the kind. Written as one object and not as a union, so that a
 * violation names its exact path. The properties must all be `Type.Optional`.
 */
export function taggedUnion<P extends TProperties>(properties: P, options: ObjectOptions = {}) {
  return Type.Object(properties, {
    ...options,
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
  });
}

/** A kind, or a switch, without settings of its own: `{}`. */
export function emptyObject(description?: string) {
  return strictObject({}, description === undefined ? {} : { description });
}

export function nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

/** One of a few words, exact in letter case. */
export function oneOf<const T extends readonly string[]>(words: T, options: { description?: string } = {}) {
  const pattern = `^(?:${words.join("|")})$`;
  return Type.Unsafe<T[number]>({ ...Type.String({ pattern }), enum: [...words], ...options });
}

/** A whole number from `minimum` to `maximum`, by default from 0 to the largest that all clients can hold. */
export function wholeNumber(options: { minimum?: number; maximum?: number; description?: string } = {}) {
  return Type.Integer({ minimum: 0, maximum: 2_147_483_647, ...options });
}

/** An object whose keys are not ours to judge. */
export function freeFormObject(description: string) {
  return Type.Object({}, { additionalProperties: true, description });
}

/** A value that is never shown: responses say `"***"`. */
export function secretText(description: string) {
  return Type.String({ format: "password", description });
}

/** A secret in a request: left out or `"***"`, it is filled from the stored connector. */
export function secretInput(description: string) {
  return Type.Optional(secretText(description));
}

/** As `secretInput`; an explicit `null` clears it. */
export function clearableSecretInput(description: string) {
  return Type.Optional(nullable(secretText(description)));
}

/** A moment: RFC 3339, UTC, with milliseconds, as `Date.prototype.toISOString` writes it. */
export function timestamp(description = "RFC 3339, UTC, with milliseconds.") {
  return Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$", description });
}
