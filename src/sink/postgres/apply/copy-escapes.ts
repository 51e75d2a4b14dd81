// For each byte, the letter that COPY's text form writes after a backslash; 0 for bytes that need no escape.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

export const copyEscapes = new Uint8Array(256);
for (const [byte, letter] of [
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0b, "v"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x5c, "\\"],
] as const) {
  copyEscapes[byte] = letter.charCodeAt(0);
}
