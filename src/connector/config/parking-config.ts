// What becomes of rows that a sink of messages can never deliver: schemas, and defaults.

import { type Static, Type } from "@sinclair/typebox";
import {
  emptyObject,
  optionalFields,
  strictObject,
  taggedUnion,
  wholeNumber,
} from "../request/schema-forms.ts";

const parkFields = {
  max_messages: wholeNumber({
    minimum: 1,
    maximum: 1_000_000,
    description: "Messages that may be parked; beyond that the run stops. Left out: 10000.",
  }),
  max_bytes: wholeNumber({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: "Bytes of their bodies, before compression; beyond that the run stops. Left out: 268435456.",
  }),
  retry_every_minutes: wholeNumber({
    maximum: 525_600,
    description: "All that is parked is sent again so often. Left out, or 0: when somebody asks.",
  }),
};
const stop = Type.Optional(emptyObject("The run stops."));

/** `what`: which rows it is about. */
export const onExhausted = (what: string) => {
  const description =
    `What becomes of ${what}. Left out, or \`stop\`: the run stops there. ` +
    "`park`: they are set aside, later rows of the same keys wait behind them, and the others go on.";
  return {
    request: taggedUnion({ stop, park: Type.Optional(optionalFields(parkFields)) }, { description }),
    full: taggedUnion({ stop, park: Type.Optional(strictObject(parkFields)) }, { description }),
  };
};

export type OnExhaustedRequest = Static<ReturnType<typeof onExhausted>["request"]>;
export type OnExhausted = Static<ReturnType<typeof onExhausted>["full"]>;

export function completeExhausted({ park }: OnExhaustedRequest): OnExhausted {
  if (!park) return { stop: {} };
  return {
    park: {
      max_messages: park.max_messages ?? 10_000,
      max_bytes: park.max_bytes ?? 268_435_456,
      retry_every_minutes: park.retry_every_minutes ?? 0,
    },
  };
}
