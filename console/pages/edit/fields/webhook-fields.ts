// The fields of a webhook sink. Pure.

import { check, choice, type GroupSpec, number, pairs, presence, secret, text, union } from "./field-spec.ts";
import { debeziumFields, formatField, receiptGroup } from "./message-fields.ts";

const auth = "/sink/webhook/auth";
const headers = "/sink/webhook/headers";
const retry = "/sink/webhook/retry";
const exhausted = "/sink/webhook/on_exhausted";
const park = `${exhausted}/park` as const;

export const webhookGroups: readonly GroupSpec[] = [
  {
    title: "Where requests go",
    isMain: true,
    fields: [
      text("/sink/webhook/url", "URL", {
        isFixed: true,
        placeholder: "https://api.example.com",
        hint: "Without user and password.",
      }),
      text("/sink/webhook/path_template", "Path", {
        placeholder: "webhooks/{schema}/{table}",
        hint: "Appended to the URL. {schema} and {table} are replaced.",
      }),
      union(
        auth,
        "Authentication",
        { bearer: "Bearer token", basic: "User name and password", header: "A header of its own" },
        { none: "None" },
      ),
      secret(`${auth}/bearer/token`, "Token", { under: `${auth}/bearer` }),
      text(`${auth}/basic/username`, "User name", { under: `${auth}/basic` }),
      secret(`${auth}/basic/password`, "Password", { under: `${auth}/basic` }),
      text(`${auth}/header/name`, "Header", { under: `${auth}/header`, placeholder: "X-Api-Key" }),
      secret(`${auth}/header/value`, "Value", { under: `${auth}/header` }),
    ],
  },
  {
    title: "Messages",
    fields: [
      formatField("/sink/webhook/format", "One request holds rows of one table."),
      ...debeziumFields("/sink/webhook/format"),
      choice("/sink/webhook/compression", "Compression", {
        None: "None",
        Gzip: "Gzip",
        Zstd: "Zstd",
        Br: "Brotli",
      }),
    ],
  },
  {
    title: "Signature",
    fields: [
      presence("/sink/webhook/signing", "Sign each request", { hint: "By Standard Webhooks." }),
      secret("/sink/webhook/signing/secret", "Secret", {
        under: "/sink/webhook/signing",
        hint: "whsec_ and the base64 of 24 to 64 bytes.",
      }),
    ],
  },
  {
    title: "Headers",
    fields: [
      pairs(`${headers}/static_`, "Headers of your own", "name"),
      check(`${headers}/idempotency_key`, "Send the key by which repetitions are told", { width: 3 }),
      text(`${headers}/idempotency_key_header`, "Its header"),
      check(`${headers}/source_schema`, "Send the schema", { width: 3 }),
      text(`${headers}/source_schema_header`, "Its header"),
      check(`${headers}/source_table`, "Send the table", { width: 3 }),
      text(`${headers}/source_table_header`, "Its header"),
    ],
  },
  {
    title: "Batches and pace",
    fields: [
      number("/sink/webhook/batch/max_batch_size", "Most rows in a request", {
        width: 2,
        hint: "0: bytes alone count. 1: a bare object, no list.",
      }),
      number("/sink/webhook/batch/max_payload_bytes", "Most bytes in a request", { width: 2 }),
      number("/sink/webhook/max_in_flight", "Requests at once", { width: 2 }),
      number("/sink/webhook/request_timeout_ms", "For a request (ms)", { width: 2 }),
      number("/sink/webhook/rate_limit/max_requests_per_second", "Most requests a second", {
        width: 2,
        hint: "0: unlimited.",
      }),
      number("/sink/webhook/rate_limit/max_bytes_per_second", "Most bytes a second", {
        width: 2,
        hint: "0: unlimited.",
      }),
      number("/limits/cdc/flush_interval_ms", "Wait for more rows (ms)", {
        width: 2,
        hint: "0: 100.",
      }),
    ],
  },
  {
    title: "Retries",
    hint: "After a timeout, 408, 425, 429 or 5xx",
    fields: [
      number(`${retry}/max_retries`, "Most retries", { width: 2, hint: "0: unlimited." }),
      number(`${retry}/max_retry_duration_ms`, "For at most (ms)", { width: 2, hint: "0: unlimited." }),
      number(`${retry}/initial_backoff_ms`, "First delay (ms)", { width: 2 }),
      number(`${retry}/max_backoff_ms`, "Largest delay (ms)", { width: 2 }),
    ],
  },
  {
    title: "What is refused for ever",
    fields: [
      union(
        exhausted,
        "Then",
        { stop: "The connector stops there", park: "Set it aside, and go on with the rest" },
        {
          hint: "Also when the retries are used up. Later rows of the same keys wait behind what is set aside.",
        },
      ),
      number(`${park}/max_messages`, "Most messages set aside", { under: park, width: 2 }),
      number(`${park}/max_bytes`, "Most bytes of them", { under: park, width: 2 }),
      number(`${park}/retry_every_minutes`, "Send them again every (minutes)", {
        under: park,
        width: 2,
        hint: "0: when somebody asks.",
      }),
    ],
  },
  receiptGroup,
];
