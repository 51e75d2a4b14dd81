// What a verification of a table has found.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject, timestamp } from "./request/schema-forms.ts";

export const repairs = ["None", "DryRun", "Apply"] as const;

const count = (description: string) => Type.Integer({ minimum: 0, description });

const DifferenceSchema = strictObject({
  // A record would be `patternProperties`, which OpenAPI 3.0 does not have.
  key: Type.Unsafe<Record<string, string>>(
    Type.Object(
      {},
      {
        additionalProperties: Type.String(),
        description: "Text of each column of the key, by its name at the source.",
      },
    ),
  ),
  kind: oneOf(["Missing", "Extra", "Changed"], {
    description:
      "`Missing`: the sink lacks the row. `Extra`: the source has no such row. `Changed`: both have it.",
  }),
  columns: Type.Array(Type.String(), {
    description: "Which columns of a `Changed` row differ. Otherwise empty.",
  }),
});
export type Difference = Static<typeof DifferenceSchema>;

export const VerifyResultSchema = strictObject(
  {
    as_of_lsn: Type.String({
      description: "The place of the source's log that both sides were compared at.",
    }),
    rows: count("Rows of the source that were compared."),
    ranges: count("Groups of rows that differed, and were divided down to rows."),
    missing: count("Rows that the sink lacked."),
    extra: count("Rows that the sink had, and the source had not."),
    changed: count("Rows that both had, with other values."),
    repaired: count("How many of these were mended."),
    sample: Type.Array(DifferenceSchema, {
      description: "At most 100 of them. Empty for a table without a key.",
    }),
    statements: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "SQL for the sink that mends the rows of the sample; only with `DryRun`. It has their values.",
      }),
    ),
  },
  { description: "What a `Verify` task has found." },
);
export type VerifyResult = Static<typeof VerifyResultSchema>;

export const VerifiedSchema = strictObject(
  {
    at: timestamp("When the comparison ended."),
    as_of_lsn: Type.String({ description: "The place of the source's log at which both were compared." }),
    rows: count("Rows of the source that were compared."),
    differing: count("Rows that differed, without those that were repaired."),
  },
  { description: "The last comparison of the whole table with its source. Left out before the first." },
);

/** What is known of one table of a connector. */
export interface VerifiedTable {
  /** At the source. */
  readonly schema: string;
  readonly name: string;
  readonly verified: Static<typeof VerifiedSchema>;
}
