// Many ids, few statements.

import { expect, test } from "bun:test";
import { ToldTogether } from "../../../../src/sink/delivery/parking/told-together.ts";

/** Each statement is answered when the test says so. */
function statements() {
  const told: { readonly ids: readonly string[]; readonly answer: PromiseWithResolvers<void> }[] = [];
  const together = new ToldTogether((ids) => {
    const answer = Promise.withResolvers<void>();
    told.push({ ids, answer });
    return answer.promise;
  });
  return { told, together };
}
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("what comes while a statement is under way goes together in the next, each id once", async () => {
  const { told, together } = statements();
  const first = together.add(["a"]);
  await settle();
  const others = Promise.all([together.add(["b", "c"]), together.add(["c"]), together.add(["d"])]);
  await settle();
  expect(told.map(({ ids }) => ids)).toEqual([["a"]]);
  told[0]!.answer.resolve();
  await first;
  await settle();
  expect(told.map(({ ids }) => ids)).toEqual([["a"], ["b", "c", "d"]]);
  told[1]!.answer.resolve();
  await others;
});

test("a statement that fails is thrown to those whose ids it had, and to no others", async () => {
  const { told, together } = statements();
  const outcomes = [together.add(["a"]), together.add(["b"])].map((told) => told.then(() => "told", String));
  await settle();
  const later = together.add(["c"]);
  told[0]!.answer.reject(new Error("the state is away"));
  expect(await Promise.all(outcomes)).toEqual(["Error: the state is away", "Error: the state is away"]);
  await settle();
  expect(told[1]!.ids).toEqual(["c"]);
  told[1]!.answer.resolve();
  await later;
});
