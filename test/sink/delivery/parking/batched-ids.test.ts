// Many ids, few calls.

import { expect, test } from "bun:test";
import { BatchedIds } from "../../../../src/sink/delivery/parking/batched-ids.ts";

/** Each call is answered when the test says so. */
function answeredByHand() {
  const calls: { readonly ids: readonly string[]; readonly answer: PromiseWithResolvers<void> }[] = [];
  const batched = new BatchedIds((ids) => {
    const answer = Promise.withResolvers<void>();
    calls.push({ ids, answer });
    return answer.promise;
  });
  return { calls, batched };
}
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("ids that come during a call go together in the next, each id once", async () => {
  const { calls, batched } = answeredByHand();
  const first = batched.add(["a"]);
  await settle();
  const others = Promise.all([batched.add(["b", "c"]), batched.add(["c"]), batched.add(["d"])]);
  await settle();
  expect(calls.map(({ ids }) => ids)).toEqual([["a"]]);
  calls[0]!.answer.resolve();
  await first;
  await settle();
  expect(calls.map(({ ids }) => ids)).toEqual([["a"], ["b", "c", "d"]]);
  calls[1]!.answer.resolve();
  await others;
});

test("what a call throws is thrown to those whose ids it had, and to no others", async () => {
  const { calls, batched } = answeredByHand();
  const outcomes = [batched.add(["a"]), batched.add(["b"])].map((sent) => sent.then(() => "sent", String));
  await settle();
  const later = batched.add(["c"]);
  calls[0]!.answer.reject(new Error("the state is away"));
  expect(await Promise.all(outcomes)).toEqual(["Error: the state is away", "Error: the state is away"]);
  await settle();
  expect(calls[1]!.ids).toEqual(["c"]);
  calls[1]!.answer.resolve();
  await later;
});
