// Texts that have broken something somewhere: quotes, escapes, separators, control characters, scripts, and sizes.

import { e, q } from "./value-case.ts";

const controls = Array.from({ length: 31 }, (_, i) => `\\x${(i + 1).toString(16).padStart(2, "0")}`).join("");
export const incompressible = "(select string_agg(md5(i::text), '') from generate_series(1, 400) i)";

export const hostileTexts = [
  "''",
  "' '",
  q("NULL"),
  q("null"),
  q("\\N"),
  q("\\."),
  q("\\"),
  q(`it's "quoted" \\"twice\\" {a,b} (c,d) [e;f]`),
  e("tab\\tnewline\\nreturn\\r\\nbackslash\\\\end\\\\"),
  e(controls),
  e("\\x7f\\u0085\\u2028\\u2029\\uFEFFbom"),
  q("😀 𝄞 é e\u0301 ﷽ \u202Eright to left"),
  "repeat('é\\\"', 4000)",
  incompressible,
];
