// Turns any name into lower-case letters, digits and underscores, by the rules of Fivetran's naming. Pure.
// https://fivetran.com/docs/core-concepts/naming-conventions

/** Letters that are not a base letter with an accent. */
const latin: Readonly<Record<string, string>> = {
  ß: "ss",
  Æ: "Ae",
  æ: "ae",
  Ø: "O",
  ø: "o",
  Œ: "Oe",
  œ: "oe",
  Ł: "L",
  ł: "l",
  Đ: "D",
  đ: "d",
  Ð: "D",
  ð: "d",
  Þ: "Th",
  þ: "th",
  ı: "i",
};

const systemColumns = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

/**
 * Removes accents. Letters of other scripts become `u` and their code point, anything else an underscore. Camel case is split, and several
 * underscores become one. A leading digit and reserved names get an underscore.
 */
export function snakeName(name: string, of: "schema" | "table" | "column"): string {
  const ascii = [...name.normalize("NFKD")].map(inAscii).join("");
  const parted = ascii
    .replace(/[^A-Za-z0-9_]/g, "_")
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1_$2")
    .replace(/_+/g, "_")
    .toLowerCase();
  const named = of === "table" ? parted.replace(/^_+(?=[a-z])/, "") : parted;
  return /^\d/.test(named) || named === "" || isReserved(named, of) ? `_${named}` : named;
}

/** Names that no schema and no column may have. https://www.postgresql.org/docs/current/ddl-system-columns.html */
function isReserved(name: string, of: "schema" | "table" | "column"): boolean {
  if (of === "schema") return name.startsWith("pg_") || name === "information_schema" || name === "millrace";
  return of === "column" && systemColumns.includes(name);
}

function inAscii(letter: string): string {
  if (letter <= "\u007f") return letter;
  const known = latin[letter];
  if (known !== undefined) return known;
  if (/\p{M}/u.test(letter)) return "";
  return /[\p{L}\p{N}]/u.test(letter) ? `u${letter.codePointAt(0)?.toString(16)}` : "_";
}
