import { expect, test } from "bun:test";
import { SourceNotes } from "../../src/source/source-notes.ts";
import { noteStore } from "../support/note-store.ts";

test("what was noted is there for the next run, and what was forgotten is not", async () => {
  const store = noteStore();
  const first = await SourceNotes.load(store);
  first.set("a", "1");
  first.set("b", "2");
  first.set("b", null);
  await first.saved();
  const second = await SourceNotes.load(store);
  expect(second.get("a")).toBe("1");
  expect(second.keys()).toEqual(["a"]);
});

test("a store that does not answer is tried again with the next note", async () => {
  const store = noteStore();
  let fails = true;
  const save = (record: string) => (fails ? Promise.reject(new Error("away")) : store.save(record));
  const notes = await SourceNotes.load({ ...store, save });
  notes.set("a", "1");
  await notes.saved();
  expect(await store.load()).toBeNull();
  await expect(notes.durable()).rejects.toThrow("away");
  fails = false;
  notes.set("b", "2");
  await notes.durable();
  expect(JSON.parse((await store.load()) ?? "")).toEqual({ a: "1", b: "2" });
});
