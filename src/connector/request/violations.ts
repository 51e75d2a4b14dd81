// Finds the violations of a schema: each with a JSON pointer, and a message that never quotes the value.

import type { TSchema } from "@sinclair/typebox";
import { Kind } from "@sinclair/typebox";
import { Errors, type ValueError, ValueErrorType } from "@sinclair/typebox/errors";
import type { Violation } from "../../errors/millrace-error.ts";

// A body of 1 MiB can break a schema in hundreds of thousands of places; nobody reads so many.
export const maxViolations = 500;
const maxPathLength = 512;
export const unknownKey = "unknown key";

/** Every violation of `schema` in `value`, one for each path, in the order of the schema; at most 500. */
export function schemaViolations(schema: TSchema, value: unknown): Violation[] {
  const byPath = new Map<string, Violation>();
  for (const error of Errors(schema, [], value)) {
    for (const leaf of leaves(error)) {
      if (byPath.size >= maxViolations) return [...byPath.values()];
      const path = leaf.path.length > maxPathLength ? `${leaf.path.slice(0, maxPathLength)}…` : leaf.path;
      // A missing key breaks its own schema too: the first violation of a path explains it best.
      if (!byPath.has(path)) byPath.set(path, { path, message: describe(leaf) });
    }
  }
  return [...byPath.values()];
}

/** For a nullable schema, reports the violations of the schema itself. */
function* leaves(error: ValueError): Generator<ValueError> {
  const variants: readonly TSchema[] | undefined = error.schema.anyOf;
  if (error.type !== ValueErrorType.Union || !variants) return yield error;
  const index = variants.findIndex((variant) => variant[Kind] !== "Null");
  const nested = error.errors[index];
  if (variants.length !== 2 || !nested || error.value === undefined) return yield error;
  for (const inner of nested) yield* leaves(inner);
}

function describe(error: ValueError): string {
  const schema = error.schema;
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return "required";
    case ValueErrorType.ObjectAdditionalProperties:
      return unknownKey;
    case ValueErrorType.ObjectMinProperties:
    case ValueErrorType.ObjectMaxProperties:
      return `expected exactly one key: ${Object.keys(schema.properties ?? {}).join(", ")}`;
    case ValueErrorType.String:
    case ValueErrorType.StringPattern:
      return schema.enum ? `expected one of: ${schema.enum.join(", ")}` : describeString(error);
    case ValueErrorType.StringMinLength:
      return `expected at least ${schema.minLength} character(s)`;
    case ValueErrorType.StringMaxLength:
      return `expected at most ${schema.maxLength} character(s)`;
    case ValueErrorType.Integer:
    case ValueErrorType.Number:
    case ValueErrorType.IntegerMinimum:
    case ValueErrorType.IntegerMaximum:
    case ValueErrorType.NumberMinimum:
    case ValueErrorType.NumberMaximum:
      return describeNumber(schema);
    case ValueErrorType.Boolean:
      return "expected true or false";
    case ValueErrorType.Object:
      return "expected an object";
    case ValueErrorType.Array:
      return "expected an array";
    case ValueErrorType.ArrayMinItems:
      return [`expected at least ${schema.minItems} item(s).`, schema.description ?? ""].join(" ").trim();
    case ValueErrorType.ArrayMaxItems:
      return `expected at most ${schema.maxItems} item(s)`;
    case ValueErrorType.ArrayUniqueItems:
      return "expected items that differ";
    case ValueErrorType.Null:
      return "expected null";
    default:
      return "not allowed here";
  }
}

function describeString(error: ValueError): string {
  if (error.type === ValueErrorType.String) return "expected a string";
  const description: string | undefined = error.schema.description;
  return description ? `not in the allowed form. ${description}` : "not in the allowed form";
}

function describeNumber(schema: TSchema): string {
  const what = schema[Kind] === "Integer" ? "a whole number" : "a number";
  if (schema.minimum === undefined) return `expected ${what}`;
  if (schema.maximum === undefined) return `expected ${what} of at least ${schema.minimum}`;
  return `expected ${what} from ${schema.minimum} to ${schema.maximum}`;
}
