// Finds where the body of a response ends, and hands out its content. Pure.

import type { BodyFraming } from "./response-head.ts";

export interface BodyEnd {
  /** `faulty`: where it ends cannot be told. */
  readonly state: "unfinished" | "reached" | "faulty";
  /**
   * Takes `bytes` from `from` on, and hands out what of them is the body's content. Returns where it stopped: at their end, at the
   * body's end, or at a fault.
   */
  take(bytes: Uint8Array, from: number, content: Content): number;
}

type Content = (bytes: Uint8Array) => void;

export function bodyEnd(framing: BodyFraming): BodyEnd {
  if (framing.kind === "length") return new LengthEnd(framing.bytes);
  return framing.kind === "chunked" ? new ChunkedEnd() : endless;
}

/** The body ends with the connection. */
const endless: BodyEnd = {
  state: "unfinished",
  take: (bytes, from, content) => {
    content(bytes.subarray(from));
    return bytes.length;
  },
};

class LengthEnd implements BodyEnd {
  constructor(private left: number) {}

  get state(): BodyEnd["state"] {
    return this.left === 0 ? "reached" : "unfinished";
  }

  take(bytes: Uint8Array, from: number, content: Content): number {
    const taken = Math.min(this.left, bytes.length - from);
    this.left -= taken;
    if (taken > 0) content(bytes.subarray(from, from + taken));
    return from + taken;
  }
}

/** What the next byte of a chunked body belongs to (RFC 9112, section 7.1). */
type Part = "size" | "extension" | "data" | "data's end" | "trailer" | "over" | "fault";

const lineFeed = 10;
const carriageReturn = 13;
/** What may follow a chunk's size: blanks, `;` and the line's end. */
const behindSize: ReadonlySet<number> = new Set([9, 32, 59, carriageReturn]);

class ChunkedEnd implements BodyEnd {
  #part: Part = "size";
  /** Of the chunk under way; null: its size has no digit yet. */
  #left: number | null = null;
  #isLineEmpty = true;

  get state(): BodyEnd["state"] {
    if (this.#part === "over") return "reached";
    return this.#part === "fault" ? "faulty" : "unfinished";
  }

  take(bytes: Uint8Array, from: number, content: Content): number {
    let at = from;
    while (at < bytes.length && this.state === "unfinished") {
      if (this.#part === "data") {
        const taken = this.#takeData(bytes.length - at);
        content(bytes.subarray(at, at + taken));
        at += taken;
      } else this.#part = this.#partBehind(bytes[at++]!);
    }
    return at;
  }

  /** How many of so many bytes are the chunk's. */
  #takeData(length: number): number {
    const left = this.#left ?? 0;
    const taken = Math.min(left, length);
    this.#left = left - taken;
    if (this.#left === 0) this.#part = "data's end";
    return taken;
  }

  #partBehind(byte: number): Part {
    switch (this.#part) {
      case "size":
        return this.#behindSizeByte(byte);
      case "extension":
        return byte === lineFeed ? this.#beginData() : "extension";
      case "data's end":
        return this.#behindDataByte(byte);
      default:
        return this.#behindTrailerByte(byte);
    }
  }

  #behindSizeByte(byte: number): Part {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      // No body is read so far that it matters that the number is inexact.
      this.#left = (this.#left ?? 0) * 16 + digit;
      return "size";
    }
    if (this.#left === null) return "fault";
    if (byte === lineFeed) return this.#beginData();
    return behindSize.has(byte) ? "extension" : "fault";
  }

  #beginData(): Part {
    this.#isLineEmpty = true;
    return this.#left === 0 ? "trailer" : "data";
  }

  #behindDataByte(byte: number): Part {
    if (byte === carriageReturn) return "data's end";
    this.#left = null;
    return byte === lineFeed ? "size" : "fault";
  }

  #behindTrailerByte(byte: number): Part {
    if (byte === carriageReturn) return "trailer";
    if (byte === lineFeed && this.#isLineEmpty) return "over";
    this.#isLineEmpty = byte === lineFeed;
    return "trailer";
  }
}

/** -1: none. */
function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
