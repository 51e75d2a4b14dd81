// Parses the head of a response: its status, what its body is and how it ends, and whether the connection stays (RFC 9112, sections 4 to 6
// and 9). Pure.

export interface ResponseHead {
  readonly status: number;
  readonly framing: BodyFraming;
  /** The answer to the next request follows the body. */
  readonly isKeptAlive: boolean;
  readonly retryAfter: string | null;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
}

export type BodyFraming =
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  | { readonly kind: "until close" }
  /** The headers contradict each other, or cannot be read: it is not known where the body ends. */
  | { readonly kind: "unknown" };

const none: BodyFraming = { kind: "length", bytes: 0 };
const unknown: BodyFraming = { kind: "unknown" };

/** A receiver answers most requests with the same head. */
let last: { readonly text: string; readonly head: ResponseHead | null } = { text: "", head: null };

/**
 * `text`: a head with its empty line, one character to a byte. Null: it is not HTTP/1. A line may end with a line feed alone.
 */
export function parseHead(text: string): ResponseHead | null {
  if (text !== last.text) last = { text, head: parsed(text) };
  return last.head;
}

function parsed(text: string): ResponseHead | null {
  const line = /^HTTP\/1\.(\d) ([1-9]\d\d)(?: [^\r\n]*)?\r?\n/.exec(text);
  if (!line) return null;
  const isOld = line[1] === "0";
  const status = Number(line[2]);
  const fields = readFields(text, line[0].length);
  const framing = fields ? bodyFraming(status, isOld, fields) : unknown;
  const options = tokens(fields?.connection ?? null);
  const isKept = isOld ? options.includes("keep-alive") : !options.includes("close");
  return {
    status,
    framing,
    isKeptAlive: isKept && (framing.kind === "length" || framing.kind === "chunked"),
    retryAfter: fields?.["retry-after"] ?? null,
    contentType: fields?.["content-type"] ?? null,
    contentEncoding: fields?.["content-encoding"] ?? null,
  };
}

/** Of the fields that somebody needs, the values, those of one name joined by commas; null: there is none. */
type Fields = Record<(typeof readNames)[number], string | null>;
const readNames = [
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "retry-after",
  "transfer-encoding",
] as const;
const isRead: ReadonlySet<string> = new Set(readNames);

/** Null: a line is no field (RFC 9112, section 5.1), or is folded. */
function readFields(text: string, from: number): Fields | null {
  const fields: Fields = {
    connection: null,
    "content-encoding": null,
    "content-length": null,
    "content-type": null,
    "retry-after": null,
    "transfer-encoding": null,
  };
  for (let start = from; start < text.length; ) {
    const end = text.indexOf("\n", start);
    const line = text.slice(start, end).trimEnd();
    start = end + 1;
    if (line === "") continue;
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1 || /\s/.test(name)) return null;
    if (isRead.has(name)) addField(fields, name as keyof Fields, line.slice(colon + 1).trim());
  }
  return fields;
}

function addField(fields: Fields, name: keyof Fields, value: string): void {
  const before = fields[name];
  fields[name] = before === null ? value : `${before},${value}`;
}

/** RFC 9112, section 6.3, for the answer to a GET or a POST. */
function bodyFraming(status: number, isOld: boolean, fields: Fields): BodyFraming {
  // What follows it is of another protocol.
  if (status === 101) return unknown;
  if (status < 200 || status === 204 || status === 304) return none;
  if (fields["transfer-encoding"] !== null) {
    // Both, or chunks where HTTP/1.0 has none: a proxy on the way may have read it otherwise.
    if (isOld || fields["content-length"] !== null) return unknown;
    return tokens(fields["transfer-encoding"]).at(-1) === "chunked"
      ? { kind: "chunked" }
      : { kind: "until close" };
  }
  if (fields["content-length"] === null) return { kind: "until close" };
  const lengths = new Set(tokens(fields["content-length"]));
  const [length] = lengths;
  if (lengths.size !== 1 || length === undefined || !/^\d{1,15}$/.test(length)) return unknown;
  return { kind: "length", bytes: Number(length) };
}

function tokens(value: string | null): readonly string[] {
  if (value === null) return [];
  return value.split(",").map((token) => token.trim().toLowerCase());
}
