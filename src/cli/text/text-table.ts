// Formats rows as a table for a terminal, and makes foreign text safe to print. Pure.

// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal executes these.
const controlCharacters = /[\u0000-\u001f\u007f-\u009f]/g;

/** Names and reasons come from others, who could send commands to the terminal. */
export function oneLine(text: string): string {
  return text.replaceAll(controlCharacters, " ");
}

/** The same for text of several lines. */
export function plainLines(text: string): string {
  return text.split("\n").map(oneLine).join("\n");
}

/** Cuts to `width` terminal columns; some characters take two. */
export function cut(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text;
  let kept = "";
  for (const character of text) {
    if (Bun.stringWidth(kept) + Bun.stringWidth(character) > width - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

export function padTo(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - Bun.stringWidth(text)));
}

/** Columns are as wide as their content. The last one is cut if the line would exceed `width`. */
export function textTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): string {
  const lines = [heading, ...rows].map((line) => line.map(oneLine));
  const widths = heading.map((_, i) => Math.max(...lines.map((line) => Bun.stringWidth(line[i] ?? ""))));
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + 2, 0);
  const lastWidth = Math.max(10, width - before);
  const cell = (text: string, i: number) =>
    i < widths.length - 1 ? padTo(text, widths[i] ?? 0) : cut(text, lastWidth);
  return lines.map((line) => line.map(cell).join("  ").trimEnd()).join("\n");
}
