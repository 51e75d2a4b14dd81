// A reason that quotes the SQL which mends it, for a page that has that SQL in a box of its own. Pure.

/** As the service introduces it. */
const introductions = [" Run at the sink: ", " Run: "] as const;

/** `commands`: the SQL in the box. Other SQL stays. */
export function withoutSql(reason: string, commands: readonly string[]): string {
  if (commands.length === 0) return reason;
  const sql = commands.map((command) => `${command.replace(/;\s*$/, "")};`).join(" ");
  return introductions.reduce((text, words) => text.replaceAll(`${words}${sql}`, ""), reason);
}
