// Determines which methods a path has: 405 if there are others, 404 if there are none.

export interface RoutePattern {
  readonly method: string;
  /** A segment that begins with a colon matches any one segment; a last one `*` matches any rest. */
  readonly path: string;
}

/**
 * The methods of all routes whose pattern matches the path, sorted and without duplicates; empty: there is no such
 * path.
 */
export function allowedMethods(routes: readonly RoutePattern[], pathname: string): string[] {
  const segments = split(pathname);
  const methods = new Set<string>();
  for (const route of routes) {
    if (!fits(split(route.path), segments)) continue;
    methods.add(route.method);
    if (route.method === "GET") methods.add("HEAD");
  }
  return [...methods].sort();
}

function split(path: string): string[] {
  const trimmed = path.endsWith("/") ? path.slice(0, -1) : path;
  return trimmed.split("/");
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.at(-1) === "*") {
    const start = pattern.slice(0, -1);
    return segments.length > start.length && fits(start, segments.slice(0, start.length));
  }
  return (
    pattern.length === segments.length &&
    pattern.every((part, index) => (part.startsWith(":") ? segments[index] !== "" : part === segments[index]))
  );
}
