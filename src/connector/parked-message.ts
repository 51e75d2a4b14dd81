// Parked messages as the API shows them, and what people ask of them. parking.ts has what a run does with them.

import { type Static, Type } from "@sinclair/typebox";
import type { AttemptNote } from "./parking.ts";
import { oneOf, patternWithoutNul, strictObject, timestamp } from "./request/schema-forms.ts";

const AttemptSchema = strictObject({
  at: timestamp(),
  status: Type.Optional(Type.Integer({ description: "Of the receiver's answer." })),
  error: Type.Optional(
    Type.String({ description: "Why there was no answer; for Kafka why it could not be sent." }),
  ),
  answer: Type.Optional(
    Type.String({ description: "What the receiver said: at most 1 KiB, without the request's secrets." }),
  ),
});

const parkedStates = ["Parked", "Asked", "Discarded"] as const;

export const ParkedSchema = strictObject({
  id: Type.String({ description: "The `Idempotency-Key` with which it was sent, and will be." }),
  schema: Type.String(),
  table: Type.String(),
  state: oneOf(parkedStates, {
    description:
      "`Asked`: it is to be sent again. `Discarded` ones are kept for 7 days at least, without body.",
  }),
  cause: oneOf(["refused", "exhausted", "behind"], {
    description:
      "`refused`: the receiver, the broker or the registry refused it. `exhausted`: its retries were used up. `behind`: a message of its key was parked before it.",
  }),
  keys: Type.Array(Type.Object({}, { additionalProperties: true }), {
    description: "The rows' keys, at most 100. A number with more digits than JavaScript keeps is a text.",
  }),
  rows: Type.Integer(),
  bytes: Type.Integer({ description: "Of the body, before compression." }),
  first_lsn: Type.Optional(
    Type.String({ description: "Commit of the first row. Left out: it is of a copy." }),
  ),
  committed_at: timestamp(),
  attempts: Type.Array(AttemptSchema, { description: "The first, and the last two." }),
  parked_at: timestamp(),
  discarded_at: Type.Optional(timestamp()),
  discarded_by: Type.Optional(Type.String({ description: "The credential that asked for it." })),
  body: Type.Optional(
    Type.String({
      description:
        "As it was sent, before compression; for Kafka the row as the source sent it. With `body=1` alone.",
    }),
  ),
});
export type Parked = Static<typeof ParkedSchema>;

export const ParkedListSchema = strictObject({
  parked: Type.Array(ParkedSchema),
  next: Type.Union([Type.String(), Type.Null()], {
    description: "`after` of the next page; null: this is the last one.",
  }),
  total: Type.Integer({ minimum: 0, description: "Messages of all pages." }),
  asked: Type.Integer({ minimum: 0, description: "How many of these are to be sent again." }),
  as_of: timestamp(
    "When they were counted. As `before` of a list, or of what is sent again or discarded, it leaves out what is parked later.",
  ),
});
export type ParkedList = Static<typeof ParkedListSchema>;

/** Of the name of a schema or of a table. */
export const nameRules = { minLength: 1, maxLength: 255, pattern: patternWithoutNul };

export const ParkedSelectionSchema = strictObject({
  schema: Type.Optional(Type.String({ ...nameRules, description: "Of this schema's tables alone." })),
  table: Type.Optional(Type.String({ ...nameRules, description: "Of tables of this name alone." })),
  before: Type.Optional(
    Type.String({ maxLength: 40, description: "Parked before this time alone: RFC 3339." }),
  ),
});
export type ParkedSelection = Static<typeof ParkedSelectionSchema>;

export const ParkedCountSchema = strictObject({ count: Type.Integer({ minimum: 0 }) });

/** What is asked for: one message, or all that the selection names. */
export type ParkedChoice = { readonly id: string } | ParkedSelection;

export interface ParkedPageRequest {
  /** Null: from the beginning. */
  readonly after: string | null;
  readonly limit: number;
  readonly schema: string | null;
  readonly table: string | null;
  /** Parked before this time alone: RFC 3339. */
  readonly before: string | null;
  readonly isDiscarded: boolean;
}

/** A message that has a row, which is parked, or was discarded: for 7 days at least, and as long as receipts may say that it is parked. */
export interface KeyedParked {
  readonly id: string;
  readonly isDiscarded: boolean;
  /** RFC 3339. */
  readonly endedAt: string | null;
  readonly attempts: readonly AttemptNote[];
  readonly change: { readonly lsn: string; readonly committed_at: string; readonly op: "" } | null;
}

/** How much of a connector is parked. */
export interface ParkedTotal {
  readonly messages: number;
  readonly bytes: number;
}
