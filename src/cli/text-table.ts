// Rows as a table for a terminal. Pure.

/** Columns are as wide as what is in them; the last one is cut where the line would be longer than `width`. */
export function textTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): string {
  const lines = [heading, ...rows];
  const widths = heading.map((_, i) => Math.max(...lines.map((line) => (line[i] ?? "").length)));
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + 2, 0);
  const room = Math.max(10, width - before);
  return lines
    .map((line) =>
      line
        .map((text, i) => cell(text, widths, i, room))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function cell(text: string, widths: readonly number[], i: number, room: number): string {
  if (i < widths.length - 1) return text.padEnd(widths[i] ?? 0);
  return text.length > room ? `${text.slice(0, room - 1)}…` : text;
}
