// Content that stays the same while the service runs, plain and compressed, as a client can take it. A browser asks
// each time whether it is still the same: after an upgrade nobody sees the page of the version before, and a reload
// costs no more than headers.

import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { acceptsGzip } from "./accept-headers.ts";

export interface StaticContent {
  readonly mediaType: string;
  readonly plain: Variant;
  readonly compressed: Variant;
}

interface Variant {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** A strong entity tag: each variant has its own (RFC 9110, section 8.8.3.3). */
  readonly tag: string;
}

const compress = promisify(gzip);

export async function staticContent(
  bytes: Uint8Array<ArrayBuffer>,
  mediaType: string,
): Promise<StaticContent> {
  const digest = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  const compressed = new Uint8Array(await compress(bytes, { level: 9 }));
  return {
    mediaType,
    plain: { bytes, tag: `"${digest}"` },
    compressed: { bytes: compressed, tag: `"${digest}-gzip"` },
  };
}

/**
 * The answer to GET or HEAD: 304 if the client has the content already.
 *
 * @param extra headers of every answer
 * @param vary the request headers that the choice of the content depended on
 */
export function contentResponse(
  content: StaticContent,
  request: Request,
  extra: Readonly<Record<string, string>>,
  vary: readonly string[] = [],
): Response {
  const isCompressed = acceptsGzip(request.headers.get("accept-encoding"));
  const { bytes, tag } = isCompressed ? content.compressed : content.plain;
  const headers = {
    ...extra,
    "cache-control": "no-cache",
    etag: tag,
    vary: [...vary, "accept-encoding"].join(", "),
  };
  if (hasIt(request.headers.get("if-none-match"), tag)) return new Response(null, { status: 304, headers });
  return new Response(request.method === "HEAD" ? null : bytes, {
    headers: {
      ...headers,
      "content-type": content.mediaType,
      "content-length": String(bytes.length),
      ...(isCompressed && { "content-encoding": "gzip" }),
    },
  });
}

/** Proxies that compress make tags weak, which does not matter here (RFC 9110, section 13.1.2). */
function hasIt(ifNoneMatch: string | null, tag: string): boolean {
  const tags = (ifNoneMatch ?? "").split(",").map((each) => each.trim().replace(/^W\//, ""));
  return tags.includes("*") || tags.includes(tag);
}
