// What a replay sends again, and what it has sent.

import { type Static, Type } from "@sinclair/typebox";
import type { Violation } from "../errors/millrace-error.ts";
import { pointerMember } from "../errors/pointer-member.ts";
import { strictObject } from "./request/schema-forms.ts";

/** Of one task. */
export const maxReplayKeys = 1_000;

/** A value as a delivery shows it, or as Postgres prints it. */
export type KeyValue = string | number | boolean;

/** One row's key: the value of each of its columns, by the column's name at the source. */
export type GivenKey = Readonly<Record<string, KeyValue>>;

export const GivenKeySchema = Type.Unsafe<Record<string, KeyValue>>(
  Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        "The value of each column of the table's key, by its name: as deliveries show it, or as Postgres prints it. " +
        "A number with more digits than JavaScript keeps is given as a text.",
    },
  ),
);

/** What the schema does not say: which values a key may have. `path`: where the key is in the request. */
export function keyViolations(key: Readonly<Record<string, unknown>>, path: string): readonly Violation[] {
  return Object.entries(key).flatMap(([name, value]) =>
    isKeyValue(value)
      ? []
      : [
          {
            path: `${path}/${pointerMember(name)}`,
            message: "expected a text, a number or a boolean",
          },
        ],
  );
}

/** JSON has numbers that are beyond a double, as 1e400: they are given as a text. */
function isKeyValue(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
}

export const ReplayResultSchema = strictObject(
  {
    rows: Type.Integer({
      minimum: 0,
      description:
        "Rows that were sent. A row that was changed meanwhile came with its change, and is not counted.",
    }),
    missing: Type.Array(GivenKeySchema, {
      description:
        "The keys that no row of the source had. Nothing was sent for them. Empty for a whole table.",
    }),
    as_of_lsn: Type.String({
      description: "The last place of the source's log that rows were read as of.",
    }),
  },
  { description: "What a `Replay` task has sent." },
);
export type ReplayResult = Static<typeof ReplayResultSchema>;
