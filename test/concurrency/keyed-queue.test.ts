// Work on one key runs in order, and another key does not wait for it.

import { expect, test } from "bun:test";
import { KeyedQueue } from "../../src/concurrency/keyed-queue.ts";

test("work on one key runs in order, also after a failure, and another key does not wait", async () => {
  const queue = new KeyedQueue();
  const release = Promise.withResolvers<void>();
  const events: string[] = [];
  const first = queue.run("a", async () => {
    await release.promise;
    events.push("a1");
    throw new Error("a1 failed");
  });
  const second = queue.run("a", async () => {
    events.push("a2");
    return 2;
  });
  await queue.run("b", async () => {
    events.push("b1");
  });
  release.resolve();
  expect(first).rejects.toThrow("a1 failed");
  expect(await second).toBe(2);
  expect(events).toEqual(["b1", "a1", "a2"]);
});
