// What a case is: a type, its hostile values, and what is expected of it.

/** How the native form of a webhook writes a value: api documentation, "Values". */
export type JsonKind =
  | "number"
  | "float"
  | "boolean"
  | "json"
  | "timestamp"
  | "zoned time"
  | "base64"
  | "text";

export interface ValueCase {
  /** As SQL, with a modifier where it has one. */
  readonly type: string;
  /** SQL expressions; each is cast to the type. */
  readonly values: readonly string[];
  readonly json: JsonKind;
  /** A btree index may be made of it. */
  readonly isKey?: boolean;
  /** There is no array of it. */
  readonly isArrayless?: boolean;
  /** Of the array type, where `array[…]` makes another. */
  readonly arrays?: readonly string[];
  /** Needs the objects that `ownTypesSql` makes. */
  readonly isOwn?: boolean;
  /** It is a domain over an array: its values are JSON arrays, and an array of it holds their texts. */
  readonly isArrayDomain?: boolean;
  /** Its bytes mean something at the source only; of its arrays that is true for every own type. */
  readonly isTextOnly?: boolean;
  /** First version of the source that has it, and of the sink that takes its values. */
  readonly since?: { readonly source: number; readonly sink: number };
  /** The sink's type, where it is not the source's: it cannot be filled there. */
  readonly sinkType?: string;
}

/** SQL literals of a text as it is, and of one with escapes. */
export const q = (text: string) => `'${text.replaceAll("'", "''")}'`;
export const e = (text: string) => `e'${text}'`;
