// The secrets that a request carries, and how a text that may echo them is freed of them. Pure.

import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import { looksLikeCredential } from "../../connector/config/webhook-headers.ts";
import { redacted } from "../../connector/request/redacted.ts";

/** A shorter value of a static header that does not look like a credential is none. Its removal could make every word unreadable. */
const shortestStatic = 8;
/** Names with `key` in them may have a number for a value. */
const shortestCredential = 4;

/** Each secret in the forms in which a receiver may echo it, the longest first. */
export function requestSecrets({ auth, headers, signing }: WebhookSinkConfig): readonly string[] {
  const secrets = new Set<string>();
  if (auth?.bearer) secrets.add(auth.bearer.token);
  if (auth?.basic) {
    const { username, password } = auth.basic;
    secrets.add(password);
    secrets.add(Buffer.from(`${username}:${password}`, "utf8").toString("base64"));
  }
  if (auth?.header) secrets.add(auth.header.value);
  for (const { name, value } of headers.static_)
    if (value.length >= (looksLikeCredential(name, value) ? shortestCredential : shortestStatic))
      secrets.add(value);
  if (signing) {
    secrets.add(signing.secret);
    secrets.add(signing.secret.replace(/^whsec_/, ""));
  }
  const forms = new Set([...secrets].flatMap(echoes).filter((form) => form !== ""));
  return [...forms].sort((a, b) => b.length - a.length);
}

/** As it is, and as JSON, a URL or HTML would have it. */
function echoes(secret: string): readonly string[] {
  const html = secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const quoted = html.replaceAll('"', "&quot;");
  return [
    secret,
    secret.trim().replaceAll(/\s+/g, " "),
    JSON.stringify(secret).slice(1, -1),
    JSON.stringify(secret).slice(1, -1).replaceAll("/", "\\/"),
    encodeURIComponent(secret.toWellFormed()),
    html,
    quoted,
    quoted.replaceAll("'", "&#39;"),
    quoted.replaceAll("'", "&#x27;"),
  ];
}

/** `text` with each secret replaced. `isCut`: it may end within a secret, and that beginning is removed. */
export function withoutSecrets(text: string, secrets: readonly string[], isCut: boolean): string {
  let freed = text;
  for (const secret of secrets) freed = freed.replaceAll(secret, redacted);
  if (!isCut) return freed;
  const cut = Math.max(0, ...secrets.map((secret) => overlap(freed, secret)));
  return freed.slice(0, freed.length - cut);
}

/** Length of the longest beginning of `secret` that `text` ends with. */
function overlap(text: string, secret: string): number {
  for (let length = Math.min(text.length, secret.length); length > 0; length--)
    if (text.endsWith(secret.slice(0, length))) return length;
  return 0;
}
