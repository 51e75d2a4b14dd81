// In which form a value goes into its row's hash. To print a value takes a server longer than all the rest, so that values of some built-in types
// are hashed without their texts. Equal forms are equal texts for each of these, and the other way round. Pure.

/** Null: by its text. */
export type HashedForm =
  | null
  /** As it is: its type's hash tells all values apart. */
  | { readonly kind: "value"; readonly isInteger?: true }
  /** As its bytes. Texts of different collations may be equal by their types' hashes. */
  | { readonly kind: "characters"; readonly isInteger?: never }
  /** As the bytes that this function sends. The type's own hash would take different values for the same. */
  | { readonly kind: "sent"; readonly by: string; readonly isInteger?: true };

const value = { kind: "value" } as const;
const characters = { kind: "characters" } as const;
const sent = (by: string) => ({ kind: "sent", by }) as const;
const isInteger = true;

/**
 * By the type's OID. Hashes of 8-byte numbers, also of those that are times, begin with the exclusive or of both halves: 1 and 2^32 are one. To the
 * hash of a numeric 1.0 is 1.00. Left to their texts are types without such a rule, as floats (-0 is 0 by its hash, and a NaN may have several
 * forms) and char(n), which has blanks.
 */
const forms: ReadonlyMap<number, HashedForm> = new Map<number, HashedForm>([
  [16, value], // bool
  [17, value], // bytea
  [20, { ...sent("int8send"), isInteger }],
  [21, { ...value, isInteger }], // int2
  [23, { ...value, isInteger }], // int4
  [25, characters], // text
  [26, value], // oid
  [1043, characters], // varchar
  [1082, value], // date
  [1083, sent("time_send")],
  [1114, sent("timestamp_send")],
  [1184, sent("timestamptz_send")],
  [1700, sent("numeric_send")],
  [2950, value], // uuid
]);

/** The form for values that have the one type at the one side, and the other at the other: OIDs. */
export function hashedForm(one: number, other: number): HashedForm {
  const form = forms.get(one) ?? null;
  return one === other || (form === characters && forms.get(other) === characters) ? form : null;
}
