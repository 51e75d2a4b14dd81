// The semaphore grants permits in the order of requests. A cancelled request gets none.

import { expect, test } from "bun:test";
import { Semaphore } from "../../src/concurrency/semaphore.ts";

test("only so many hold a permit at once, in order, and a release counts once", async () => {
  const semaphore = new Semaphore(2);
  const order: string[] = [];
  const ask = (name: string) =>
    semaphore.acquire().then((end) => {
      order.push(name);
      return end;
    });
  const [a, b] = [await ask("a"), await ask("b")];
  const [c, d] = [ask("c"), ask("d")];
  await Bun.sleep(1);
  expect(order).toEqual(["a", "b"]);
  a();
  a();
  await c;
  await Bun.sleep(1);
  expect(order).toEqual(["a", "b", "c"]);
  b();
  await d;
  expect(order).toEqual(["a", "b", "c", "d"]);
});

test("a cancelled wait ends at once, and the permit goes to the next", async () => {
  const semaphore = new Semaphore();
  const end = await semaphore.acquire();
  const abort = new AbortController();
  const broken = semaphore.acquire(abort.signal);
  const next = semaphore.acquire(new AbortController().signal);
  abort.abort(new Error("the run is over"));
  await expect(broken).rejects.toThrow("the run is over");
  await expect(semaphore.acquire(abort.signal)).rejects.toThrow("the run is over");
  end();
  (await next)();
  const last = await semaphore.acquire(AbortSignal.timeout(1_000));
  expect(last).toBeFunction();
});

test("work within a permit begins in order, what is not wanted any more makes way, and a failure gives the permit back", async () => {
  const semaphore = new Semaphore(2);
  const never = new AbortController().signal;
  const log: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<string>>();
  const run = (name: string, signal = never) =>
    semaphore.within(signal, () => {
      log.push(name);
      const gate = Promise.withResolvers<string>();
      gates.set(name, gate);
      return gate.promise;
    });
  const [one, two] = [run("one"), run("two")];
  const unwanted = new AbortController();
  const three = run("three", unwanted.signal);
  const [four, five] = [run("four"), run("five")];
  await Bun.sleep(0);
  expect(log).toEqual(["one", "two"]);
  unwanted.abort(new Error("not wanted"));
  await expect(three).rejects.toThrow("not wanted");
  await expect(run("six", unwanted.signal)).rejects.toThrow("not wanted");
  gates.get("two")?.reject(new Error("failed"));
  await expect(two).rejects.toThrow("failed");
  expect(log).toEqual(["one", "two", "four"]);
  for (const [name, ended] of [
    ["one", one],
    ["four", four],
    ["five", five],
  ] as const) {
    gates.get(name)?.resolve(name);
    expect(await ended).toBe(name);
    await Bun.sleep(0);
  }
  expect(log).toEqual(["one", "two", "four", "five"]);
});
