// Requests that an OpenAPI document describes, from its own examples, and broken in every way.

import fc from "fast-check";

export interface Operation {
  readonly id: string;
  /** In capitals. */
  readonly method: string;
  /** With `{placeholders}`. */
  readonly path: string;
  /** Of the body; none, without one. */
  readonly examples: readonly unknown[];
  readonly responses: Readonly<Record<string, object>>;
}

export interface BrokenRequest {
  readonly operation: Operation;
  /** With its query. */
  readonly target: string;
  /** Whether the target's path is one of the operation, and not another one. */
  readonly isRouted: boolean;
  /** JSON text, or what is none. */
  readonly body: string | undefined;
}

interface DescribedOperation {
  readonly operationId: string;
  readonly responses: Record<string, object>;
  readonly requestBody?: {
    content: Record<string, { examples?: Record<string, { value: unknown }> }>;
  };
}

/** All operations of an OpenAPI document. */
export function operationsOf(document: {
  paths: Record<string, Record<string, DescribedOperation>>;
}): Operation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId, responses, requestBody }]) => {
      const [media] = Object.values(requestBody?.content ?? {});
      const examples = Object.values(media?.examples ?? {}).map(({ value }) => value);
      return { id: operationId, method: method.toUpperCase(), path, examples, responses };
    }),
  );
}

/** A value that stands at any place: no problem may repeat it. */
export const marker = "m4rked-value";

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    ...[null, true, 0, -1, 1.5, 1e308, "", "***", marker, [], {}, [[]]],
    ...["\0", "\ud800", "__proto__"],
  ),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.jsonValue({ maxDepth: 3 }),
);
const strangeKey = fc.oneof(
  fc.constantFrom(
    ...["__proto__", "constructor", "toString", "mysql", "webhook", "postgres", "snapshot", "id", "a/b~c"],
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

/** What is done to the text of a body: mostly nothing. */
const textChange = fc.oneof(
  { weight: 12, arbitrary: fc.constant((text: string) => text) },
  fc.nat().map((at) => (text: string) => text.slice(0, at % (text.length + 1))),
  fc.string({ maxLength: 3 }).map((more) => (text: string) => text + more),
  fc.constant((text: string) => text.replace("{", '{"id":"twice",')),
);

const strangeId = fc.oneof(fc.constantFrom("%00", "%zz", "..", "x".repeat(31)), fc.webSegment());
/** One of `known`, mostly. */
const idAmong = (known: readonly string[]) =>
  fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...known) }, strangeId);
const queries = fc.constantFrom(
  ...["", "", "", "", "?connector_id=fuzzed", "?clone_from=fuzzed", "?x=1", "?%", "?connector_id=%00"],
);

/**
 * Mostly of what there is: the connectors `fuzzed` and `events`, and the task.
 *
 * @param adapt changes an example before it is broken
 */
export function brokenRequest(
  operation: Operation,
  adapt: (example: unknown) => unknown,
  taskId = "none",
): fc.Arbitrary<BrokenRequest> {
  const changes = fc.array(change, { maxLength: 3 });
  return fc
    .record({
      example: fc.nat(10),
      changes,
      textChange,
      query: queries,
      connector_id: idAmong(["fuzzed", "events"]),
      task_id: idAmong([taskId]),
    })
    .map(({ example, changes, textChange, query, ...ids }) => {
      const used = Object.entries(ids).filter(([name]) => operation.path.includes(`{${name}}`));
      const { examples, path } = operation;
      const value = adapt(examples[example % Math.max(1, examples.length)]);
      const text = value === undefined ? undefined : (JSON.stringify(changes.reduce(mutate, value)) ?? "");
      return {
        operation,
        target: `${used.reduce((at, [name, id]) => at.replace(`{${name}}`, () => id), path)}${query}`,
        // Without an id, or with dots for one, it is another path.
        isRouted: used.every(([, id]) => id !== "" && !/^(?:\.|%2e)+$/i.test(id)),
        body: text === undefined ? undefined : textChange(text),
      };
    });
}

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
