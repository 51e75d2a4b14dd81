// A list of names for a sentence: the first few, and how many more there are.

/** `a, b and 3 more`. */
export function listedNames(names: readonly string[], most = 5): string {
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return names.slice(0, most).join(", ") + more;
}
