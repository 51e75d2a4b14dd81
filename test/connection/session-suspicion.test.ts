import { expect, test } from "bun:test";
import { type SessionSample, type Suspicion, suspect } from "../../src/connection/session-watch.ts";

function checks(...samples: readonly SessionSample[]): number {
  return samples.reduce<Suspicion | null>(suspect, null)?.checks ?? 0;
}
const waits = (progress: string): SessionSample => ({ backend: "waits", progress });

test("only a backend that waits at every check without progress is suspicious", () => {
  expect(checks(waits("a"), waits("a"), waits("a"))).toBe(3);
  expect(checks(waits("a"), waits("a"), waits("b"))).toBe(1);
  expect(checks(waits("a"), { backend: "works", progress: "a" })).toBe(0);
  expect(checks(waits("a"), { backend: "works", progress: "a" }, waits("a"))).toBe(1);
});
