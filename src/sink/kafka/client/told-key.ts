// A message's key for people: bounded, and without characters that the state refuses. Keys in Avro begin with a zero byte. Pure.

import { plainLine } from "../../../errors/answer-in-reason.ts";

const mostBytes = 200;

/** Text as it is. Of other keys each byte that is no visible ASCII character is `\x` and its digits. */
export function toldKey(key: Uint8Array): string {
  const start = key.subarray(0, mostBytes);
  const text = textOf(start, key.length > mostBytes);
  if (text !== null && !/\p{Cc}/u.test(text)) return plainLine(text);
  return Array.from(start, toldByte).join("");
}

/** Null: it is none. `isCut`: its last character may be there in part, and is left out then. */
function textOf(bytes: Uint8Array, isCut: boolean): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
}

function toldByte(byte: number): string {
  const isVisible = byte > 32 && byte < 127 && byte !== 92;
  return isVisible ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
}
