// Reads the answer to one request from the bytes of a connection: its head, and where its body ends. Pure.

import { type BodyEnd, bodyEnd } from "./response-body.ts";
import { parseHead, type ResponseHead } from "./response-head.ts";

/** Bounds of what is read: of heads, interim ones (1xx) included, and of a body that nobody asks for. */
const maxBytes = 64 * 1024;
/** So much of such a body is kept, for people: far more than a reason quotes. */
const keptBytes = 4096;
const nothing = new Uint8Array();

/**
 * - `kept`: it was read to its end, and the connection can take the next request.
 * - `closing`: it was read to its end, and the receiver closes the connection.
 * - `cut`: it counts, and the rest of its body is not read.
 * - `faulty`: it is no answer.
 */
export type ResponseState = "unfinished" | "kept" | "closing" | "cut" | "faulty";

export class ResponseReader {
  /** It counts once it is there, whatever comes of the body. */
  head: ResponseHead | null = null;
  /** Nothing has come. */
  isUntouched = true;
  #text = "";
  #headBytes = 0;
  #body: BodyEnd | null = null;
  #readBytes = 0;
  readonly #kept: Uint8Array[] = [];
  #keptBytes = 0;
  #isCut = false;

  /** `bodyBytes`: so much of the body is read and kept, whatever the status; 0: nobody asks for it. */
  constructor(private readonly bodyBytes = 0) {}

  /** What is kept of the body, without its framing. */
  get content(): Uint8Array {
    return this.#kept.length > 0 ? Buffer.concat(this.#kept) : nothing;
  }

  /** The body's end is not in `content`, or cannot be told. */
  get isContentCut(): boolean {
    return this.#isCut || this.#body?.state !== "reached";
  }

  take(bytes: Uint8Array): ResponseState {
    this.isUntouched = false;
    if (this.#body) return this.#takeBody(this.#body, bytes, 0);
    // Where `bytes` begin in the text.
    let begin = this.#text.length;
    this.#text += latin1(bytes);
    this.#headBytes += bytes.length;
    for (let length = headLength(this.#text); length >= 0; length = headLength(this.#text)) {
      const head = parseHead(this.#text.slice(0, length));
      if (!head) return "faulty";
      if (isFinal(head)) return this.#takeHead(head, bytes, length - begin);
      this.#text = this.#text.slice(length);
      begin -= length;
    }
    return this.#headBytes > maxBytes ? "faulty" : "unfinished";
  }

  #takeHead(head: ResponseHead, bytes: Uint8Array, from: number): ResponseState {
    this.head = head;
    this.#text = "";
    const { framing } = head;
    if (framing.kind === "unknown") return "cut";
    this.#body = bodyEnd(framing);
    const isTooLong = framing.kind === "length" && framing.bytes > maxBytes;
    return isTooLong && this.#mostKept === 0 ? "cut" : this.#takeBody(this.#body, bytes, from);
  }

  #takeBody(body: BodyEnd, bytes: Uint8Array, from: number): ResponseState {
    const end = body.take(bytes, from, this.#keep);
    this.#readBytes += end - from;
    if (body.state === "unfinished") return this.#readBytes > this.#mostRead ? "cut" : "unfinished";
    // Bytes after it that nobody asked for must not count as the next answer.
    if (body.state === "faulty" || end < bytes.length) return "cut";
    return this.head?.isKeptAlive ? "kept" : "closing";
  }

  get #mostRead(): number {
    return this.bodyBytes || maxBytes;
  }

  get #mostKept(): number {
    if (this.bodyBytes > 0) return this.bodyBytes;
    // Nobody reads what comes with a 2xx.
    return (this.head?.status ?? 0) < 300 ? 0 : keptBytes;
  }

  readonly #keep = (bytes: Uint8Array): void => {
    const left = this.#mostKept - this.#keptBytes;
    this.#isCut ||= bytes.length > left;
    if (left <= 0 || bytes.length === 0) return;
    // The memory of `bytes` is the socket's.
    const kept = bytes.slice(0, left);
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  };
}

/** Other 1xx statuses are interim. Nobody asked for another protocol, so 101 is an answer, if a strange one. */
function isFinal({ status }: ResponseHead): boolean {
  return status >= 200 || status === 101;
}

/** Bytes of the first head in `text`, with its empty line; -1: it has not come to its end. */
function headLength(text: string): number {
  const usual = text.indexOf("\n\r\n");
  const bare = text.indexOf("\n\n");
  if (bare >= 0 && (usual < 0 || bare < usual)) return bare + 2;
  return usual < 0 ? -1 : usual + 3;
}

/** As `Buffer`'s, without making one. */
function latin1(bytes: Uint8Array): string {
  return Buffer.prototype.latin1Slice.call(bytes, 0, bytes.length);
}
