// The configuration of a webhook sink: schemas and types of the request form and of the full form. webhook-format.ts
// has the message formats; complete-connector.ts fills the defaults.

import { type Static, Type } from "@sinclair/typebox";
import {
  nullable,
  oneOf,
  optionalFields,
  secretInput,
  secretText,
  strictObject,
  taggedUnion,
  wholeNumber,
} from "../request/schema-forms.ts";
import { onExhausted } from "./parking-config.ts";
import { WebhookFormatRequestSchema, WebhookFormatSchema } from "./webhook-format.ts";

const maxDurationMs = 31_536_000_000;
const duration = (description: string, minimum = 0) =>
  wholeNumber({ minimum, maximum: maxDurationMs, description });

// RFC 9110 section 5.6.2: a token.
const headerName = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: "^[!#$%&'*+.^_`\\|~0-9A-Za-z\\-]+$",
    description: `${description} Letters, digits and !#$%&'*+-.^_\`|~ alone, as in X-Env.`,
  });

// RFC 9110 section 5.5, without obs-text: visible characters, with single spaces and tabs between them.
const headerValuePattern = "^(?:[\\x21-\\x7e](?:[\\x20-\\x7e\\t]*[\\x21-\\x7e])?)?$";
const headerValueOptions = { maxLength: 8192, pattern: headerValuePattern, format: "password" };

// A secret that becomes part of a header.
const headerSecret = (description: string) =>
  Type.String({
    ...headerValueOptions,
    description: `${description} Visible ASCII characters, with blanks between them only.`,
  });
const headerSecretInput = (description: string) => Type.Optional(headerSecret(description));

// --- fields ----------------------------------------------------------------------------------

const url = Type.String({
  minLength: 1,
  maxLength: 2048,
  pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\x01-\\x1f\\x7f@#]+$",
  description: "Base address, http or https, without user, password and fragment.",
});
const pathTemplate = Type.String({
  maxLength: 2048,
  pattern: "^(?:[^\\{\\}\\s\\x01-\\x1f\\x7f#]|\\{schema\\}|\\{table\\})*$",
  description: "Appended to `url`; `{schema}` and `{table}` are replaced by the names of the source table.",
});
const basicUser = Type.String({
  maxLength: 1024,
  // RFC 7617: no colon in the user id; no control characters.
  pattern: "^[^:\\x01-\\x1f\\x7f]*$",
  description: "User name.",
});
const passwordText = "Password.";

const headerSwitches = {
  idempotency_key: Type.Boolean({ description: "Send the deduplication key." }),
  idempotency_key_header: headerName("Name of its header."),
  source_schema: Type.Boolean({ description: "Send the source schema's name." }),
  source_schema_header: headerName("Name of its header."),
  source_table: Type.Boolean({ description: "Send the source table's name." }),
  source_table_header: headerName("Name of its header."),
};

const batchFields = {
  max_batch_size: wholeNumber({ description: "Rows per request; 0: unlimited; 1: no batching." }),
  max_payload_bytes: wholeNumber({ minimum: 1, description: "Bytes of an uncompressed body." }),
};
const CompressionSchema = oneOf(["None", "Gzip", "Zstd", "Br"], { description: "Encoding of the body." });
const rateFields = {
  max_requests_per_second: wholeNumber({ description: "0: unlimited." }),
  max_bytes_per_second: wholeNumber({ maximum: Number.MAX_SAFE_INTEGER, description: "0: unlimited." }),
};
const retryFields = {
  max_retries: wholeNumber({ description: "0: unlimited." }),
  max_retry_duration_ms: duration("0: unlimited."),
  initial_backoff_ms: duration("First delay.", 1),
  max_backoff_ms: duration("Largest delay.", 1),
};
const maxInFlight = wholeNumber({
  minimum: 1,
  maximum: 1000,
  description: "Requests under way at once; those that share a row go one after the other. Left out: 32.",
});
const exhausted = onExhausted("rows that the receiver refuses for ever, or whose retries are used up");
const requestTimeout = wholeNumber({ minimum: 1, description: "Bound of one request, in milliseconds." });

// Standard Webhooks: "whsec_" and the base64 of 24 to 64 bytes.
const signingSecretText = "whsec_[A-Za-z0-9+\\/]{32,86}={0,2}";
export const signingSecretForm = new RegExp(`^${signingSecretText}$`);
const signingSecretPattern = `^(?:\\*\\*\\*|${signingSecretText})$`;
const signingText = "Secret of Standard Webhooks: whsec_ and the base64 of 24 to 64 bytes.";
const signingSecret = Type.String({
  pattern: signingSecretPattern,
  format: "password",
  description: signingText,
});

// --- request form ----------------------------------------------------------------------------

const WebhookAuthRequestSchema = taggedUnion({
  bearer: Type.Optional(
    strictObject({ token: headerSecretInput("Sent as `Authorization: Bearer <token>`.") }),
  ),
  basic: Type.Optional(strictObject({ username: basicUser, password: secretInput(passwordText) })),
  header: Type.Optional(
    strictObject({
      name: headerName("Name of the header."),
      value: headerSecretInput("Value of the header."),
    }),
  ),
});

const staticHeaders = (options: object) =>
  Type.Array(
    strictObject({
      name: headerName("Name of the header."),
      value: headerSecretInput("Value of the header."),
    }),
    { maxItems: 100, ...options },
  );

export const WebhookSinkRequestSchema = strictObject({
  url,
  path_template: Type.Optional(pathTemplate),
  format: Type.Optional(WebhookFormatRequestSchema),
  auth: Type.Optional(nullable(WebhookAuthRequestSchema)),
  headers: Type.Optional(
    strictObject({
      idempotency_key: Type.Optional(headerSwitches.idempotency_key),
      idempotency_key_header: Type.Optional(headerSwitches.idempotency_key_header),
      source_schema: Type.Optional(headerSwitches.source_schema),
      source_schema_header: Type.Optional(headerSwitches.source_schema_header),
      source_table: Type.Optional(headerSwitches.source_table),
      source_table_header: Type.Optional(headerSwitches.source_table_header),
      static_: Type.Optional(
        staticHeaders({ description: "`static` is accepted as another name of it; answers have `static_`." }),
      ),
      static: Type.Optional(staticHeaders({ "x-alias-of": "static_" })),
    }),
  ),
  batch: Type.Optional(optionalFields(batchFields)),
  compression: Type.Optional(CompressionSchema),
  rate_limit: Type.Optional(optionalFields(rateFields)),
  retry: Type.Optional(optionalFields(retryFields)),
  request_timeout_ms: Type.Optional(requestTimeout),
  max_in_flight: Type.Optional(maxInFlight),
  on_exhausted: Type.Optional(exhausted.request),
  signing: Type.Optional(nullable(strictObject({ secret: Type.Optional(signingSecret) }))),
});
export type WebhookSinkRequest = Static<typeof WebhookSinkRequestSchema>;

// --- full form -------------------------------------------------------------------------------

const WebhookAuthSchema = taggedUnion({
  bearer: Type.Optional(strictObject({ token: headerSecret("Sent as `Authorization: Bearer <token>`.") })),
  basic: Type.Optional(strictObject({ username: basicUser, password: secretText(passwordText) })),
  header: Type.Optional(
    strictObject({ name: headerName("Name of the header."), value: headerSecret("Value of the header.") }),
  ),
});

export const WebhookSinkConfigSchema = strictObject({
  url,
  path_template: pathTemplate,
  format: WebhookFormatSchema,
  auth: nullable(WebhookAuthSchema),
  headers: strictObject({
    ...headerSwitches,
    static_: Type.Array(
      strictObject({ name: headerName("Name of the header."), value: headerSecret("Value of the header.") }),
    ),
  }),
  batch: strictObject(batchFields),
  compression: CompressionSchema,
  rate_limit: strictObject(rateFields),
  retry: strictObject(retryFields),
  request_timeout_ms: requestTimeout,
  max_in_flight: maxInFlight,
  on_exhausted: exhausted.full,
  signing: nullable(strictObject({ secret: signingSecret })),
});
/** Every default is filled, secrets are present. `auth` and `signing` are null if they are off. */
export type WebhookSinkConfig = Static<typeof WebhookSinkConfigSchema>;
