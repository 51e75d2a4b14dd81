// Leaves fields out of the rows of a COPY in text form: a tab or a newline that is part of a value is escaped there.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

const tab = 0x09;
const newline = 0x0a;

/** Chunks of any size in, and out. `keep`: of each field of a row. */
export async function* keepFields(
  chunks: AsyncIterable<Uint8Array>,
  keep: readonly boolean[],
): AsyncGenerator<Uint8Array> {
  const first = keep.indexOf(true);
  let field = 0;
  for await (const chunk of chunks) {
    const written = new Uint8Array(chunk.length);
    let end = 0;
    for (const byte of chunk) {
      if (byte === newline) {
        field = 0;
        written[end++] = byte;
      } else if (byte === tab) {
        field++;
        if (keep[field] && field !== first) written[end++] = byte;
      } else if (keep[field]) {
        written[end++] = byte;
      }
    }
    if (end > 0) yield written.subarray(0, end);
  }
}
