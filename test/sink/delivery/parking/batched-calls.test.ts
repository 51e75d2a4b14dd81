// Many items, few calls.

import { expect, test } from "bun:test";
import { BatchedCalls } from "../../../../src/sink/delivery/parking/batched-calls.ts";

/** Each call is answered when the test says so. */
function answeredByHand() {
  const calls: { readonly items: readonly string[]; readonly answer: PromiseWithResolvers<void> }[] = [];
  const batched = new BatchedCalls<string>({
    send: (items) => {
      const answer = Promise.withResolvers<void>();
      calls.push({ items, answer });
      return answer.promise;
    },
    bytesOf: ({ length }) => length,
    mostBytes: 10,
  });
  return { calls, batched };
}
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("what comes during a call goes together in the next, in its order", async () => {
  const { calls, batched } = answeredByHand();
  const first = batched.add(["a"]);
  await settle();
  const others = Promise.all([batched.add(["b", "c"]), batched.add(["d"])]);
  await settle();
  expect(calls.map(({ items }) => items)).toEqual([["a"]]);
  calls[0]!.answer.resolve();
  await first;
  await settle();
  expect(calls.map(({ items }) => items)).toEqual([["a"], ["b", "c", "d"]]);
  calls[1]!.answer.resolve();
  await others;
});

test("what a call throws is thrown to those whose items it had, and to no others", async () => {
  const { calls, batched } = answeredByHand();
  const outcomes = [batched.add(["a"]), batched.add(["b"])].map((sent) => sent.then(() => "sent", String));
  await settle();
  const later = batched.add(["c"]);
  calls[0]!.answer.reject(new Error("the state is away"));
  expect(await Promise.all(outcomes)).toEqual(["Error: the state is away", "Error: the state is away"]);
  await settle();
  expect(calls[1]!.items).toEqual(["c"]);
  calls[1]!.answer.resolve();
  await later;
});

test("a call has at most the bytes, or the item that passes them", async () => {
  const { calls, batched } = answeredByHand();
  const sent = Promise.all(
    ["12345", "1234567", "123", "12345678901", "1"].map((item) => batched.add([item])),
  );
  for (let n = 0; n < 3; n++) {
    await settle();
    expect(calls.length).toBe(n + 1);
    calls[n]!.answer.resolve();
  }
  await sent;
  expect(calls.map(({ items }) => items)).toEqual([["12345", "1234567"], ["123", "12345678901"], ["1"]]);
});
