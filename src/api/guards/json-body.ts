// Reads a request's body: of bounded size, in an accepted media type, valid UTF-8, and unambiguous JSON. The schemas
// check the content.

import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { scanJson } from "./json-scan.ts";
import { unusableParts } from "./unusable-json.ts";

const json = "application/json";

/** The `parse` of routes that take JSON. Routes without it read no body. */
export const parseJson = ({ request }: { readonly request: Request }) => readJsonBody(request, [json]);

/** The `parse` of routes that take a merge patch, under its own media type (RFC 7396) or as plain JSON. */
export const parseMergePatch = ({ request }: { readonly request: Request }) =>
  readJsonBody(request, ["application/merge-patch+json", json]);

export const maxBodyBytes = 1_048_576;

// Far more than a connector needs, and far less than what would overflow a stack.
const maxDepth = 64;

const tooLarge = () => new MillraceError("body_too_large", "The body may hold at most 1 MiB.");

/**
 * Returns the parsed body.
 *
 * Throws `unsupported_media_type`, `body_too_large`, `malformed_json`, and `invalid_request` for JSON that is nested
 * too deeply, repeats a key, or contains unusable values.
 *
 * @param mediaTypes the accepted media types, in lower case
 */
async function readJsonBody(request: Request, mediaTypes: readonly string[]): Promise<unknown> {
  requireMediaType(request.headers, mediaTypes);
  const bytes = await readBounded(request);
  return parseBytes(bytes);
}

function requireMediaType(headers: Headers, mediaTypes: readonly string[]): void {
  const [mediaType = "", ...parameters] = (headers.get("content-type") ?? "")
    .split(";")
    .map((part) => part.trim().toLowerCase());
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  const isUtf8 = charset === undefined || ["utf-8", "utf8", '"utf-8"'].includes(charset);
  const encoding = headers.get("content-encoding") ?? "identity";
  if (mediaTypes.includes(mediaType) && isUtf8 && encoding === "identity") return;
  throw new MillraceError(
    "unsupported_media_type",
    `Send the body as ${mediaTypes.join(" or ")}, in UTF-8 and without a Content-Encoding.`,
  );
}

async function readBounded(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBodyBytes) throw tooLarge();
  if (!request.body) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body) {
    length += chunk.byteLength;
    if (length > maxBodyBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parseBytes(bytes: Uint8Array): unknown {
  const text = decodeUtf8(bytes);
  const scan = scanJson(text, maxDepth);
  if (scan.tooDeep) throw invalidRequest([{ path: "", message: `nested more than ${maxDepth} levels deep` }]);
  const value = parse(text);
  const violations = [
    ...scan.repeatedKeys.map((path) => ({ path, message: "given more than once" })),
    ...unusableParts(value),
  ];
  if (violations.length === 0) return value;
  throw invalidRequest(violations);
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new MillraceError("malformed_json", "The body is not valid UTF-8.");
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message would quote the body.
    throw new MillraceError("malformed_json", "The body is not valid JSON.");
  }
}
