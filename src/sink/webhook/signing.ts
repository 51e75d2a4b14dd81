// Signs a request by Standard Webhooks, symmetric form. request-headers.ts puts the signature on each attempt.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

import { bodyChunks, type RequestBody } from "../format/values/message-body.ts";

export interface SignatureHeaders {
  readonly "webhook-id": string;
  readonly "webhook-timestamp": string;
  readonly "webhook-signature": string;
}

/** The key in a secret `whsec_<base64>`. */
export function signingKey(secret: string): Buffer {
  return Buffer.from(secret.replace(/^whsec_/, ""), "base64");
}

/**
 * The three headers of an attempt. `id` is the idempotency key: the same for every attempt. `body` is the
 * JSON before compression: that is what a receiver's framework hands to the verifier.
 */
export function sign(key: Buffer, id: string, body: RequestBody, nowMs: number): SignatureHeaders {
  const timestamp = String(Math.floor(nowMs / 1000));
  const hmac = new Bun.CryptoHasher("sha256", key).update(`${id}.${timestamp}.`);
  for (const chunk of bodyChunks(body)) hmac.update(chunk);
  const signature = hmac.digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}
