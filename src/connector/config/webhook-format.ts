// The message formats of a webhook sink. message-format.ts has what other sinks share.

import { type Static, Type } from "@sinclair/typebox";
import { freeFormObject, taggedUnion } from "../request/schema-forms.ts";
import {
  completeFormat,
  completeJsonSerde,
  formatSchemas,
  JsonSerdeRequestSchema,
  JsonSerdeSchema,
} from "./message-format.ts";

/** Serdes whose names are known, but which are not built. */
export const unbuiltSerdeKinds = ["avro", "protobuf"] as const;

const headers = Type.Optional(freeFormObject("Accepted; no effect on a webhook."));
const schemas = formatSchemas({
  serdeRequest: taggedUnion({ json: Type.Optional(JsonSerdeRequestSchema) }),
  serde: taggedUnion({ json: Type.Optional(JsonSerdeSchema) }),
  headersRequest: headers,
  headers,
  tombstones: "No effect on a webhook, which has no keys to clear.",
  description: "`native` (also `supermetal`), or `debezium`. Left out: native.",
});

export const WebhookFormatRequestSchema = schemas.request;
export type WebhookFormatRequest = Static<typeof WebhookFormatRequestSchema>;

export const WebhookFormatSchema = schemas.full;
export type WebhookFormat = Static<typeof WebhookFormatSchema>;

/** The full form. */
export function completeWebhookFormat(format: WebhookFormatRequest): WebhookFormat {
  return completeFormat(
    format,
    ({ json = {} }) => ({ json: completeJsonSerde(json) }),
    (given) => (given ? { headers: given } : {}),
  );
}
