// Names in a message for people. Pure.

/** `a, b and 3 more`: the first `most` names. */
export function listedNames(names: readonly string[], most = 5): string {
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return names.slice(0, most).join(", ") + more;
}
