// JSON values that are made while they are sent, from where the source's bytes lie: a value of 100 MB, its JSON and what the
// HTTP client makes of that would not fit beside each other.

export interface LargeValue {
  /** What it is made of. */
  readonly source: Uint8Array;
  /** Bytes of JSON. */
  readonly length: number;
  /** The JSON in parts. It can be made again, for another attempt. */
  chunks(): Iterable<Uint8Array>;
}

/** Shorter values are written at once. */
export const largeValueBytes = 1024 * 1024;
/** Source bytes that one chunk is made of: whole groups of three bytes in hex. */
const partBytes = 96 * 1024;

const quote = Buffer.from('"');

/** Bytes that are sent as they are. */
export function largeRaw(source: Uint8Array, start: number, end: number): LargeValue {
  return {
    source,
    length: end - start,
    *chunks() {
      for (let at = start; at < end; at += partBytes)
        yield source.subarray(at, Math.min(end, at + partBytes));
    },
  };
}

/** A JSON string of UTF-8 text. `escapeOf` gives what is written in the place of a byte; null: the byte itself. */
export function largeString(
  source: Uint8Array,
  start: number,
  end: number,
  escapeOf: (byte: number) => Uint8Array | null,
): LargeValue {
  const escapes = Array.from({ length: 256 }, (_, byte) => escapeOf(byte));
  const added = Uint8Array.from(escapes, (written) => (written ? written.length - 1 : 0));
  const growth = (from: number, to: number) => {
    let bytes = 0;
    for (let i = from; i < to; i++) bytes += added[source[i]!]!;
    return bytes;
  };
  return {
    source,
    length: end - start + growth(start, end) + 2,
    *chunks() {
      yield quote;
      for (let at = start; at < end; at += partBytes) {
        const to = Math.min(end, at + partBytes);
        const more = growth(at, to);
        yield more === 0 ? source.subarray(at, to) : escaped(source, at, to, escapes, more);
      }
      yield quote;
    },
  };
}

function escaped(
  source: Uint8Array,
  from: number,
  to: number,
  escapes: readonly (Uint8Array | null)[],
  more: number,
): Uint8Array {
  const out = new Uint8Array(to - from + more);
  let write = 0;
  for (let i = from; i < to; i++) {
    const written = escapes[source[i]!];
    if (!written) out[write++] = source[i]!;
    else {
      out.set(written, write);
      write += written.length;
    }
  }
  return out;
}

/** Hex digits as a JSON string of base64. `write` writes those of `source[from, to)`, whole groups of six, at `out[0]`. */
export function largeBase64(
  source: Uint8Array,
  start: number,
  end: number,
  write: (source: Uint8Array, from: number, to: number, out: Uint8Array) => void,
): LargeValue {
  const length = (from: number, to: number) => Math.ceil((to - from) / 6) * 4;
  return {
    source,
    length: length(start, end) + 2,
    *chunks() {
      yield quote;
      for (let at = start; at < end; at += partBytes) {
        const to = Math.min(end, at + partBytes);
        const out = new Uint8Array(length(at, to));
        write(source, at, to, out);
        yield out;
      }
      yield quote;
    },
  };
}
