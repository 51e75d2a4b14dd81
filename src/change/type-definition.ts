// How a type was made that is neither built in nor an extension's: enough to make it anew on another server.

/** A type where another uses it. */
export interface TypeUse {
  /** As `format_type` prints it, schema-qualified when it is not built in. */
  readonly name: string;
  /** The type, or the element type of the array, where that has a definition of its own. */
  readonly of: TypeKey | null;
}

export interface TypeKey {
  readonly schema: string;
  readonly name: string;
}

export type TypeDefinition = TypeKey &
  (
    | { readonly kind: "enum"; readonly labels: readonly EnumLabel[] }
    | {
        readonly kind: "domain";
        readonly base: TypeUse;
        readonly notNull: boolean;
        /** As SQL; null without one. */
        readonly byDefault: string | null;
        readonly checks: readonly { readonly name: string; readonly sql: string }[];
      }
    | {
        readonly kind: "composite";
        /** `number`: the source's own; it stays when the attribute is renamed. */
        readonly attributes: readonly {
          readonly name: string;
          readonly number: number;
          readonly type: TypeUse;
        }[];
      }
    | { readonly kind: "range"; readonly subtype: TypeUse; readonly multirange: string | null }
  );

/** In the order in which the labels sort. */
export interface EnumLabel {
  readonly name: string;
  /** Rises with the labels' age: one that was added later has a greater one. */
  readonly age: number;
}
