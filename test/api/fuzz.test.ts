// Requests made from the service's own OpenAPI document, and broken in every way: none is a fault, none gets
// an undocumented status, and no answer repeats a secret.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { requestExamples } from "../../src/api/examples.ts";
import { apiClient, planted } from "./api-client.ts";

const api = apiClient();
const { body: document } = await api.call("GET", "/swagger/json");

const operations = Object.entries<Record<string, { operationId: string; responses: object }>>(
  document.paths,
).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ method, path, ...operation })),
);

/** A value whose place is arbitrary: no problem may repeat it. */
const marker = "m4rked-value";

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    "",
    "***",
    marker,
    [],
    {},
    [[]],
    "\0",
    "\ud800",
    "__proto__",
  ),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.jsonValue({ maxDepth: 3 }),
);
const strangeKey = fc.oneof(
  fc.constantFrom(
    "__proto__",
    "constructor",
    "toString",
    "mysql",
    "webhook",
    "postgres",
    "snapshot",
    "id",
    "a/b~c",
  ),
  fc.string({ maxLength: 5 }),
);

/** A change at a place that `path` leads to, each number choosing one of the members there. */
interface Change {
  readonly path: readonly number[];
  readonly kind: "set" | "remove" | "add";
  readonly key: string;
  readonly value: unknown;
}

const change: fc.Arbitrary<Change> = fc.record({
  path: fc.array(fc.nat(20), { maxLength: 7 }),
  kind: fc.constantFrom("set", "remove", "add"),
  key: strangeKey,
  value: strange,
});

function mutate(value: unknown, { path, kind, key, value: other }: Change): unknown {
  const [step, ...rest] = path;
  if (typeof value !== "object" || value === null || step === undefined) return other;
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  const keys = Object.keys(copy);
  const chosen = keys[step % Math.max(1, keys.length)];
  if (kind === "add" && rest.length === 0) {
    Object.defineProperty(copy, key, { value: other, enumerable: true, configurable: true, writable: true });
  } else if (chosen === undefined) {
    return other;
  } else if (kind === "remove" && rest.length === 0) {
    delete copy[chosen];
  } else {
    copy[chosen] = mutate(copy[chosen], { path: rest, kind, key, value: other });
  }
  return copy;
}

/** The example with passwords that no answer may repeat. */
function withSecrets(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"password":"example"', `"password":"${planted}"`));
}

const request = fc.record({
  operation: fc.constantFrom(...operations),
  example: fc.nat(10),
  changes: fc.array(change, { maxLength: 3 }),
  id: fc.oneof(fc.constantFrom("fuzzed", "events", "%00", "%zz", "..", "x".repeat(31)), fc.webSegment()),
  query: fc.constantFrom(
    "",
    "",
    "",
    "?connector_id=fuzzed",
    "?clone_from=fuzzed",
    "?x=1",
    "?%",
    "?connector_id=%00",
  ),
});

test("thousands of broken requests", async () => {
  await fc.assert(
    fc.asyncProperty(request, async ({ operation, example, changes, id, query }) => {
      const examples = Object.values(requestExamples[operation.operationId] ?? {});
      const value = examples[example % Math.max(1, examples.length)]?.value;
      const body =
        value === undefined ? undefined : (JSON.stringify(changes.reduce(mutate, withSecrets(value))) ?? "");
      const path = operation.path.replace(/\{\w+\}/g, () => id);
      const answer = await api.call(operation.method.toUpperCase(), `${path}${query}`, body);
      expect(api.faults).toEqual([]);
      if (answer.status >= 400) expect(answer.text).not.toContain(marker);
      // Without an id, or with dots for one, it is another path.
      const routed = id !== "" && !/^(?:\.|%2e)+$/i.test(id);
      if (routed) expect(Object.keys(operation.responses)).toContain(String(answer.status));
    }),
    { numRuns: 3000 },
  );
}, 60_000);
