// Refuses a query that repeats a parameter, because readers disagree on which one counts. Each route's schema refuses
// unknown names.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";

export const queryGuard = new Elysia({ name: "query-guard", normalize: false }).onTransform(
  { as: "global" },
  ({ request }) => {
    const at = request.url.indexOf("?");
    if (at < 0) return;
    const repeated = repeatedParameters(request.url.slice(at));
    if (repeated.length === 0) return;
    const violations = repeated.map((name) => ({ path: `/${name}`, message: "given more than once" }));
    throw new MillraceError("invalid_query", "A query parameter is given more than once.", { violations });
  },
);

function repeatedParameters(query: string): string[] {
  const names = [...new URLSearchParams(query).keys()];
  const repeated = names.filter((name, index) => names.indexOf(name) !== index);
  return [...new Set(repeated)].map((name) => name.slice(0, 100)).slice(0, 100);
}
