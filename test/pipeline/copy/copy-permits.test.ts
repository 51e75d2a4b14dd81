import { expect, test } from "bun:test";
import { CopyPermits } from "../../../src/pipeline/copy/copy-permits.ts";

test("no more goes on at once than there is room for, in its order, and what is not wanted any more makes way", async () => {
  const room = new CopyPermits(2);
  const never = new AbortController().signal;
  const log: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<string>>();
  const run = (name: string, signal = never) =>
    room.within(signal, () => {
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
