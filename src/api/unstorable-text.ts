// Text that JSON can write and Postgres cannot hold: it would be refused only when it is stored, as a fault.

/**
 * JSON pointers of every string and key that has a NUL character or half of a surrogate pair. At most 100.
 */
export function unstorableText(value: unknown): string[] {
  const found: string[] = [];
  visit(value, "", found);
  return found.slice(0, 100);
}

function visit(value: unknown, path: string, found: string[]): void {
  if (typeof value === "string") {
    if (!isStorable(value)) found.push(path);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) visit(item, `${path}/${index}`, found);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, member] of Object.entries(value)) {
      if (isStorable(key)) visit(member, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, found);
      else found.push(path);
    }
  }
}

function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}
