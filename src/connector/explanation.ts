// What became of a row, as the API shows it.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject, timestamp } from "./request/schema-forms.ts";

const ChangeSchema = strictObject({
  lsn: Type.String({ description: "Commit of its transaction, in the source's log." }),
  committed_at: timestamp(),
  op: oneOf(["c", "u", "d", "r", "t", ""], {
    description:
      "As in Debezium's form: created, updated, deleted, read by a copy. Empty: that is not known.",
  }),
});
const lastChange = Type.Union([ChangeSchema, Type.Null()]);

const DeliverySchema = strictObject({
  idempotency_key: Type.Union([Type.String(), Type.Null()], {
    description: "Null: the message has none.",
  }),
  at: timestamp(),
  status: Type.Union([Type.Integer(), Type.Null()], {
    description: "Of the last answer; null: there was none, or a broker took it.",
  }),
  ms: Type.Integer({ description: "How long the last attempt took." }),
  outcome: oneOf(["delivered", "refused", "exhausted", "parked", "cut", "discarded"], {
    description:
      "`delivered`: the receiver has it. `refused`, `exhausted`: the run ended with it. `parked`: it was set aside. `cut`: it was refused, and " +
      "went on in parts, which are listed too. `discarded`: somebody dropped it.",
  }),
  attempts: Type.Integer({ description: "0: it was not tried, as it waits behind a parked one." }),
  first_at: timestamp(),
  change: lastChange,
  kafka: Type.Optional(
    strictObject(
      {
        topic: Type.String(),
        partition: Type.Integer(),
        offset: Type.Union([Type.Integer(), Type.Null()], { description: "Null: no broker told it." }),
      },
      { description: "Where the message is. Absent: it was a request." },
    ),
  ),
});
export type ExplainedDelivery = Static<typeof DeliverySchema>;

const OpenRequestSchema = strictObject({
  idempotency_key: Type.Union([Type.String(), Type.Null()]),
  state: oneOf(["Waiting", "Sending", "Retrying"]),
  attempts: Type.Integer(),
  first_at: Type.Optional(timestamp()),
  last_at: Type.Optional(timestamp()),
  status: Type.Optional(Type.Integer({ description: "Of the last answer." })),
  error: Type.Optional(Type.String({ description: "Why there was no answer." })),
  last_change: Type.Optional(ChangeSchema),
});

export const ExplanationSchema = strictObject({
  schema: Type.String(),
  name: Type.String(),
  key: Type.Object({}, { additionalProperties: true }),
  state: oneOf(["Delivered", "Retrying", "Sending", "Waiting", "Parked", "Refused", "Discarded", "Unknown"], {
    description:
      "Of the last change that is known. `Unknown` also where another replica runs the connector, and a later change may be on its way there.",
  }),
  summary: Type.String({ description: "The same in a sentence." }),
  last_change: lastChange,
  durable: Type.Boolean({
    description: "The receiver has the last change that is known, and no later one can be on its way.",
  }),
  parked: Type.Array(Type.String(), {
    description: "Ids of parked messages that have the row, or that it waits behind.",
  }),
  deliveries: Type.Array(DeliverySchema, { description: "The newest first, at most 100." }),
  open: Type.Union([Type.Array(OpenRequestSchema), Type.Null()], {
    description:
      "Requests that have the row and are not delivered yet; null: that is not known here, as the connector does not run, or on another replica.",
  }),
  receipts: strictObject({
    hours: Type.Integer({ description: "`limits.receipts_hours`; 0: none are kept." }),
    since: Type.Union([timestamp(), Type.Null()], {
      description: "Receipts go back to here; null: there are none.",
    }),
  }),
});
export type Explanation = Static<typeof ExplanationSchema>;

/** What is asked. */
export interface ExplainRequest {
  readonly schema: string;
  readonly name: string;
  readonly key: Readonly<Record<string, unknown>>;
}
