// UUIDs as 16 bytes.

export function uuidBytes(text: string): Uint8Array {
  return Uint8Array.fromHex(text.replaceAll("-", ""));
}

/** Of the 16 bytes from `at` on. */
export function uuidText(bytes: Uint8Array, at = 0): string {
  const hex = bytes.subarray(at, at + 16).toHex();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
