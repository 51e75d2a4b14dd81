// What a server sends for a COPY in binary form.

/** Rows as COPY BINARY writes them: bigint fields, and texts. */
export function copyOf(rows: readonly (readonly (bigint | number | string | null)[])[]): Uint8Array {
  const parts: Buffer[] = [Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), Buffer.alloc(8)];
  const int = (value: number, bytes: 2 | 4) => {
    const buffer = Buffer.alloc(bytes);
    buffer.writeIntBE(value, 0, bytes);
    return buffer;
  };
  for (const row of rows) {
    parts.push(int(row.length, 2));
    for (const field of row) {
      if (field === null) {
        parts.push(int(-1, 4));
        continue;
      }
      const bytes =
        typeof field === "string" ? Buffer.from(field) : Buffer.alloc(typeof field === "bigint" ? 8 : 4);
      if (typeof field === "bigint") bytes.writeBigInt64BE(field);
      if (typeof field === "number") bytes.writeInt32BE(field);
      parts.push(int(bytes.length, 4), bytes);
    }
  }
  return Buffer.concat([...parts, int(-1, 2)]);
}
