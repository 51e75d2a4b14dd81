// What a form is made of: each field names its place in the configuration, and the page draws it. Pure.

import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { isObject, type Pointer, type ValueAt, valueAt } from "../model/pointer.ts";

interface FieldOptions {
  readonly hint?: string;
  /** Only there while the configuration has an object here. */
  readonly under?: Pointer;
  /** Only there while the word at a place, chosen or by default, is one of these. What was typed goes, and comes back with it. */
  readonly onlyIf?: readonly [place: Pointer, words: readonly string[]];
  /** A stored connector keeps it: with another one, what was delivered so far would mean nothing. */
  readonly isFixed?: boolean;
  /** Of six columns, on a wide screen. */
  readonly width?: 2 | 3 | 4 | 6;
  /** What is set with it, unless there is something already. */
  readonly alsoSets?: readonly [place: Pointer, value: JsonValue];
}

interface FieldPlace extends FieldOptions {
  readonly path: Pointer;
  readonly label: string;
}

type Choices = readonly (readonly [value: string, label: string])[];

export type FieldSpec = FieldPlace &
  (
    | { readonly kind: "text"; readonly placeholder?: string }
    | { readonly kind: "number"; readonly placeholder?: string }
    /** A list of texts, one a line. */
    | { readonly kind: "lines"; readonly placeholder?: string }
    /** `isLong`: several lines, as a certificate. */
    | { readonly kind: "secret"; readonly isLong: boolean }
    | { readonly kind: "check" }
    | { readonly kind: "choice"; readonly choices: Choices }
    | { readonly kind: "words"; readonly choices: Choices }
    /** One of several objects. `none`: how it is called when there is none; null: there has to be one. */
    | {
        readonly kind: "union";
        readonly choices: Choices;
        readonly none: string | null;
        readonly blanks: Readonly<Record<string, JsonObject>>;
        /** Old names: shown only where they are in use. */
        readonly rare: readonly string[];
      }
    /** An object that is there, or is not. */
    | { readonly kind: "presence"; readonly blank: JsonObject }
    /** Two halves of an SSH key, which the service makes. */
    | { readonly kind: "keyPair" }
    /** Names with values. */
    | { readonly kind: "pairs"; readonly nameKey: "name" | "key" }
  );

export interface GroupSpec {
  readonly title: string;
  readonly hint?: string;
  /** Most people fill these in: they are never folded away. */
  readonly isMain?: boolean;
  readonly fields: readonly FieldSpec[];
}

interface TextOptions extends FieldOptions {
  readonly placeholder?: string;
}

export const text = (path: Pointer, label: string, options: TextOptions = {}): FieldSpec => ({
  kind: "text",
  path,
  label,
  ...options,
});
export const number = (path: Pointer, label: string, options: TextOptions = {}): FieldSpec => ({
  kind: "number",
  path,
  label,
  ...options,
});
export const lines = (path: Pointer, label: string, options: TextOptions = {}): FieldSpec => ({
  kind: "lines",
  path,
  label,
  ...options,
});
export const secret = (path: Pointer, label: string, options: FieldOptions = {}): FieldSpec => ({
  kind: "secret",
  isLong: false,
  path,
  label,
  ...options,
});
/** PEM text: a certificate, or a key. */
export const pem = (path: Pointer, label: string, options: FieldOptions = {}): FieldSpec => ({
  kind: "secret",
  isLong: true,
  path,
  label,
  ...options,
});
export const check = (path: Pointer, label: string, options: FieldOptions = {}): FieldSpec => ({
  kind: "check",
  path,
  label,
  ...options,
});
export const presence = (path: Pointer, label: string, options: FieldOptions = {}): FieldSpec => ({
  kind: "presence",
  blank: {},
  path,
  label,
  ...options,
});

export const keyPair = (path: Pointer, label: string, options: FieldOptions = {}): FieldSpec => ({
  kind: "keyPair",
  path,
  label,
  ...options,
});

/** `labels` has each word that the API takes. */
export function choice<P extends Pointer>(
  path: P,
  label: string,
  labels: Readonly<Record<ValueAt<P> & string, string>>,
  options: FieldOptions = {},
): FieldSpec {
  return { kind: "choice", path, label, choices: Object.entries(labels), ...options };
}

/** Several words of a list. */
export function words<P extends Pointer>(
  path: P,
  label: string,
  labels: ValueAt<P> extends readonly (infer Word extends string)[] ? Readonly<Record<Word, string>> : never,
  options: FieldOptions = {},
): FieldSpec {
  return { kind: "words", path, label, choices: Object.entries(labels), ...options };
}

interface UnionOptions extends FieldOptions {
  readonly none?: string;
  readonly blanks?: Readonly<Record<string, JsonObject>>;
  readonly rare?: readonly string[];
}

/** `labels` has each kind that the API takes. */
export function union<P extends Pointer>(
  path: P,
  label: string,
  labels: Readonly<Record<keyof ValueAt<P> & string, string>>,
  { none, blanks = {}, rare = [], ...options }: UnionOptions = {},
): FieldSpec {
  return {
    kind: "union",
    path,
    label,
    choices: Object.entries<string>(labels),
    none: none ?? null,
    blanks,
    rare,
    ...options,
  };
}

export const pairs = (
  path: Pointer,
  label: string,
  nameKey: "name" | "key",
  options: FieldOptions = {},
): FieldSpec => ({ kind: "pairs", path, label, nameKey, ...options });

/** Whether the field is there with this configuration; `defaults`: what the API fills in. */
export function isShown(field: FieldSpec, draft: JsonObject, defaults: JsonObject | null): boolean {
  if (field.under && !isObject(valueAt(draft, field.under))) return false;
  return isOpenTo(field, draft, defaults);
}

function isOpenTo({ onlyIf }: FieldSpec, draft: JsonObject, defaults: JsonObject | null): boolean {
  if (!onlyIf) return true;
  const [place, allowed] = onlyIf;
  return allowed.includes(String(valueAt(draft, place) ?? valueAt(defaults ?? {}, place) ?? ""));
}

/** Whether a value stands where its condition does not hold: the API refuses what it would ignore. */
export function isOutOfPlace(field: FieldSpec, draft: JsonObject, defaults: JsonObject | null): boolean {
  return valueAt(draft, field.path) !== undefined && !isOpenTo(field, draft, defaults);
}

/** The kind of a union: chosen, or by default. */
export function kindAt(path: string, draft: JsonObject, defaults: JsonObject | null): string | null {
  const chosen = valueAt(draft, path);
  const value = chosen === undefined ? valueAt(defaults ?? {}, path) : chosen;
  return isObject(value) ? (Object.keys(value)[0] ?? null) : null;
}
