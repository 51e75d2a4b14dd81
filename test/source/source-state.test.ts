import { expect, test } from "bun:test";
import { SourceState } from "../../src/source/source-state.ts";
import { memorySourceState } from "../support/pipeline/source-state.ts";

test("a stored value is there for the next run, and a deleted one is not", async () => {
  const store = memorySourceState();
  const first = await SourceState.load(store);
  first.set("a", "1");
  first.set("b", "2");
  first.set("b", null);
  await first.saved();
  const second = await SourceState.load(store);
  expect(second.get("a")).toBe("1");
  expect(second.keys()).toEqual(["a"]);
});

test("after a failed save, the next change saves again", async () => {
  const store = memorySourceState();
  let fails = true;
  const save = (record: string) => (fails ? Promise.reject(new Error("away")) : store.save(record));
  const state = await SourceState.load({ ...store, save });
  state.set("a", "1");
  await state.saved();
  expect(await store.load()).toBeNull();
  await expect(state.durable()).rejects.toThrow("away");
  fails = false;
  state.set("b", "2");
  await state.durable();
  expect(JSON.parse((await store.load()) ?? "")).toEqual({ a: "1", b: "2" });
});
