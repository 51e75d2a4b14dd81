// The definition of a user-defined type that no extension owns: enough to create it on another server.

/** A reference to a type, from another type's definition. */
export interface TypeUse {
  /** As `format_type` prints it, schema-qualified unless it is built in. */
  readonly name: string;
  /** The type, or an array's element type, where it has a definition of its own. */
  readonly of: TypeKey | null;
}

export interface TypeKey {
  readonly schema: string;
  readonly name: string;
}

export type TypeDefinition = TypeKey &
  (
    | { readonly kind: "enum"; readonly labels: readonly EnumLabel[] }
    /** Without its checks, NOT NULL and default: the source has applied them. */
    | { readonly kind: "domain"; readonly base: TypeUse }
    | {
        readonly kind: "composite";
        /** `number`: the source's own (pg_attribute.attnum); a rename keeps it. */
        readonly attributes: readonly {
          readonly name: string;
          readonly number: number;
          readonly type: TypeUse;
        }[];
      }
    | {
        readonly kind: "range";
        readonly subtype: TypeUse;
        readonly multirange: string | null;
        readonly order: RangeOrder;
      }
  );

/** What orders the values that a range is of. */
export interface RangeOrder {
  /** As SQL; null: a built-in one that is the subtype's default. */
  readonly opclass: string | null;
  /** As SQL; null: the subtype's default. */
  readonly collation: string | null;
  /** The collation's locale, as column-locale.ts has it; null: it is no text. */
  readonly locale: string | null;
}

/** In sort order. */
export interface EnumLabel {
  readonly name: string;
  /** Rises with the time of creation: a label that was added later has a greater number. */
  readonly age: number;
}
