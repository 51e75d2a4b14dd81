import { expect, test } from "bun:test";
import { type Sight, type Suspicion, suspect } from "../../src/connection/session-watch.ts";

function looks(...sights: readonly Sight[]): number {
  return sights.reduce<Suspicion | null>(suspect, null)?.looks ?? 0;
}
const waits = (progress: string): Sight => ({ backend: "waits", progress });

test("only a backend that waits, look after look, while nothing passes, is suspicious", () => {
  expect(looks(waits("a"), waits("a"), waits("a"))).toBe(3);
  expect(looks(waits("a"), waits("a"), waits("b"))).toBe(1);
  expect(looks(waits("a"), { backend: "works", progress: "a" })).toBe(0);
  expect(looks(waits("a"), { backend: "works", progress: "a" }, waits("a"))).toBe(1);
});
