// Copies tuples from messages into the arena of a batch, in the layout of COPY BINARY: the innermost loop of every stream. It notices large
// (TOAST) values that the source did not send, as they did not change.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html (TupleData)

import type { BatchBuilder } from "../../../change/batch-builder.ts";
import { NULL_LENGTH, type TupleForm, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { storedBytes } from "../../../change/packed-hex.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

const columnNull = 0x6e;
const columnText = 0x74;
const columnUnchanged = 0x75;
const columnBinary = 0x62;

/** Shorter values are copied byte by byte, which is cheaper than a call. */
const inlineCopyBytes = 24;

export class TupleCopier {
  /** Of the last tuple that was copied: whether it has an unchanged TOAST value, and where it ends in its message. */
  sawUnchanged = false;
  readEnd = 0;

  constructor(private readonly form: TupleForm) {}

  /**
   * Appends the tuple at `bytes[at]`, in a message that ends at `messageEnd`, to `builder`'s arena. `keep[i]` is 1 for
   * each column to be copied; null: copy all.
   */
  copy(bytes: Buffer, at: number, messageEnd: number, keep: Uint8Array | null, builder: BatchBuilder): void {
    const count = (bytes[at]! << 8) | bytes[at + 1]!;
    // A null takes one byte in the message and four in the arena.
    builder.reserve(messageEnd - at + 3 * count + 2);
    const arena = builder.arena;
    const headerAt = builder.arenaEnd;
    let kept = 0;
    let write = headerAt + 2;
    let read = at + 2;
    this.sawUnchanged = false;
    for (let i = 0; i < count; i++) {
      const kind = bytes[read++]!;
      const isKept = keep === null || keep[i] === 1;
      if (isKept) kept++;
      if (kind === columnBinary || kind === columnText) {
        const length = this.#valueLength(bytes, read, messageEnd, kind);
        const end = read + 4 + length;
        if (isKept) {
          // The length is copied with its value.
          if (length <= inlineCopyBytes) while (read < end) arena[write++] = bytes[read++]!;
          else {
            bytes.copy(arena, write, read, end);
            write += end - read;
          }
        }
        read = end;
      } else if (kind === columnNull || kind === columnUnchanged) {
        if (!isKept) continue;
        if (kind === columnUnchanged) this.sawUnchanged = true;
        write = writeInt32(arena, write, kind === columnNull ? NULL_LENGTH : UNCHANGED_LENGTH);
      } else {
        throw new MillraceError("protocol_violation", `pgoutput: column kind ${kind}`);
      }
    }
    arena[headerAt] = kept >> 8;
    arena[headerAt + 1] = kept & 0xff;
    builder.arenaEnd = write;
    this.readEnd = read;
  }

  /** The number of bytes behind a value's length field. That field itself is copied as it is. */
  #valueLength(bytes: Buffer, at: number, messageEnd: number, kind: number): number {
    if (kind === columnText && this.form === "binary") {
      throw new MillraceError("stream_form_changed", "a column's type has no binary form: text from here on");
    }
    const length = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    const stored = storedBytes(length);
    if (length < 0 || at + 4 + stored > messageEnd) {
      throw new MillraceError("protocol_violation", "pgoutput: a value is longer than its message");
    }
    return stored;
  }
}

function writeInt32(target: Uint8Array, at: number, value: number): number {
  target[at] = value >>> 24;
  target[at + 1] = (value >>> 16) & 0xff;
  target[at + 2] = (value >>> 8) & 0xff;
  target[at + 3] = value & 0xff;
  return at + 4;
}
