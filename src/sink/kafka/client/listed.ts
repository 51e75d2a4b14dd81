// Names in a message for people. Pure.

const toldNames = 3;

/** `a, b, c and 2 more`. */
export function listed(names: readonly string[]): string {
  const others = names.length > toldNames ? ` and ${names.length - toldNames} more` : "";
  return `${names.slice(0, toldNames).join(", ")}${others}`;
}
