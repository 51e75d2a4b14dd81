// JSON of packed values of bytea, made while it is sent. A column's writer knows the text form of its values alone: here is what
// it would write of that.

import { hexDigits } from "../../../change/packed-hex.ts";
import { writeBase64UrlSafe, writeHex } from "../debezium/debezium-value.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { writeBase64 } from "./json-value.ts";
import type { ValueWriter } from "./value-writer.ts";

/** Whole groups of three bytes in base64. */
const partBytes = 96 * 1024;
const quote = Buffer.from('"');
/** What bytea begins with, as JSON. */
const jsonPrefix = Buffer.from("\\\\x");

/** Writes what `write` would of the text of the packed value `source[start, end)`. */
export function writePacked(
  write: ValueWriter,
  out: ByteWriter,
  source: Uint8Array,
  start: number,
  end: number,
): void {
  const { length, make } = formOf(write, source, start, end);
  out.large({
    source,
    length: length + 2,
    *chunks() {
      yield quote;
      yield* make();
      yield quote;
    },
  });
}

interface Form {
  /** Bytes between the quotes. */
  readonly length: number;
  readonly make: () => Iterable<Uint8Array>;
}

function formOf(write: ValueWriter, source: Uint8Array, start: number, end: number): Form {
  const digits = 2 * (end - start);
  switch (write) {
    case writeBase64:
      return base64(source, start, end, "base64");
    case writeBase64UrlSafe:
      return base64(source, start, end, "base64url");
    case writeHex:
      return { length: digits, make: () => hexDigits(source, start, end) };
    default:
      // What looks like bytea is that, or text.
      return {
        length: jsonPrefix.length + digits,
        *make() {
          yield jsonPrefix;
          yield* hexDigits(source, start, end);
        },
      };
  }
}

function base64(source: Uint8Array, start: number, end: number, alphabet: "base64" | "base64url"): Form {
  return {
    length: Math.ceil((end - start) / 3) * 4,
    *make() {
      for (let at = start; at < end; at += partBytes) {
        const part = source.subarray(at, Math.min(end, at + partBytes));
        yield new TextEncoder().encode(part.toBase64({ alphabet }));
      }
    },
  };
}
