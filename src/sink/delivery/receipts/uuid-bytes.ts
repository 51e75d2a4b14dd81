// UUIDs as 16 bytes.

/** Writes the 16 bytes of a UUID in lower or upper case. */
export function setUuid(bytes: Uint8Array, at: number, text: string): void {
  let high = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 45) continue;
    const nibble = code < 58 ? code - 48 : (code | 32) - 87;
    if (high < 0) high = nibble;
    else {
      bytes[at++] = (high << 4) | nibble;
      high = -1;
    }
  }
}

/** Of the 16 bytes from `at` on. */
export function uuidText(bytes: Uint8Array, at = 0): string {
  const hex = bytes.subarray(at, at + 16).toHex();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
