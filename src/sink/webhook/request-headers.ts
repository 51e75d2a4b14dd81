// The headers of requests: those that a table's requests share, and those of each attempt. Pure.

import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import { isReservedHeader, signatureHeaders } from "../../connector/config/webhook-headers.ts";
import type { RequestBody } from "../format/values/message-body.ts";
import { contentEncoding } from "./compression.ts";
import { sign, signingKey } from "./signing.ts";

/**
 * Static headers first, so that auth, source headers and those of the body win over one of the same name; several of one name are all sent.
 * Names of schemas and tables are percent-encoded where a header cannot hold them. All names are in lower case.
 */
export function requestHeaders(
  config: WebhookSinkConfig,
  source: { readonly schema: string; readonly table: string },
): Record<string, string> {
  const { headers: options, auth } = config;
  const headers = new Headers();
  for (const { name, value } of options.static_) if (!isReservedHeader(name)) headers.append(name, value);
  if (!headers.has("User-Agent")) headers.set("User-Agent", "millrace");
  if (!headers.has("Accept")) headers.set("Accept", "*/*");
  if (options.source_schema) headers.set(options.source_schema_header, headerText(source.schema));
  if (options.source_table) headers.set(options.source_table_header, headerText(source.table));
  if (auth) setAuth(headers, auth);
  headers.set("Content-Type", "application/json");
  const encoding = contentEncoding(config.compression);
  if (encoding !== null) headers.set("Content-Encoding", encoding);
  // These are set for each request. A static header of the same name must not come in addition.
  if (options.idempotency_key) headers.delete(options.idempotency_key_header);
  if (config.signing) for (const name of signatureHeaders) headers.delete(name);
  return Object.fromEntries(headers);
}

/** What changes from request to request, and with the signature from attempt to attempt. */
export function attemptHeaders(
  config: WebhookSinkConfig,
  attempt: { readonly idempotencyKey: string; readonly body: RequestBody; readonly nowMs: number },
): Record<string, string> {
  const { idempotency_key: sent, idempotency_key_header: name } = config.headers;
  const headers = sent ? { [name.toLowerCase()]: attempt.idempotencyKey } : {};
  if (!config.signing) return headers;
  const key = signingKey(config.signing.secret);
  return Object.assign(headers, sign(key, attempt.idempotencyKey, attempt.body, attempt.nowMs));
}

function setAuth(headers: Headers, auth: NonNullable<WebhookSinkConfig["auth"]>): void {
  if (auth.bearer) headers.set("Authorization", `Bearer ${auth.bearer.token}`);
  else if (auth.basic) {
    const credentials = Buffer.from(`${auth.basic.username}:${auth.basic.password}`, "utf8");
    headers.set("Authorization", `Basic ${credentials.toString("base64")}`);
  } else if (auth.header && !isReservedHeader(auth.header.name))
    headers.set(auth.header.name, auth.header.value);
}

/** Visible ASCII as it is; anything else percent-encoded, as in the URL. */
function headerText(name: string): string {
  return /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(name) ? name : encodeURIComponent(name);
}
