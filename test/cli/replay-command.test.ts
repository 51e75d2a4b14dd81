import { expect, test } from "bun:test";
import { parseKeys, replayLines, replayRows } from "../../src/cli/replay-command.ts";
import { maxReplayKeys } from "../../src/connector/replay.ts";
import type { Task } from "../../src/connector/task.ts";
import { commandRig } from "../support/api/command-rig.ts";

const task = (more: Partial<Task> = {}): Task => ({
  id: "t1",
  state: "Pending",
  created_at: "2026-01-01T00:00:00.000Z",
  attempt: 0,
  spec: { Replay: { database: "shop", schema: "public", name: "orders" } },
  ...more,
});

/** What a service is asked for by the command, or why nothing is. */
async function asked(keys: readonly string[], flags: { readonly all?: boolean }): Promise<unknown> {
  const { context, requests } = commandRig(() => Response.json(task()));
  const failure = await replayRows(context, "orders", "public.orders", keys, flags).catch(
    ({ message }) => message,
  );
  return failure ?? requests.map(({ body }) => body);
}

test("a list of keys that is empty sends nothing: the whole table needs a word of its own", async () => {
  const Replay = { schema: "public", name: "orders" };
  const refusal = "Name the keys of the rows, or send the whole table with --all; not both.";
  expect(await asked([], {})).toBe(refusal);
  expect(await asked(['{"id": 7}'], { all: true })).toBe(refusal);
  expect(await asked(['{"id": 7}'], {})).toEqual([{ Replay: { ...Replay, keys: [{ id: 7 }] } }]);
  expect(await asked([], { all: true })).toEqual([{ Replay }]);
});

test("a key is JSON, one for each row", () => {
  expect(parseKeys(['{"id": 7}', '{"a": "x", "b": true}'])).toEqual([{ id: 7 }, { a: "x", b: true }]);
});

test.each(["7", "[1]", "null", "id=7"])("%s is no key", (text) => {
  expect(() => parseKeys([text])).toThrow("is no key");
});

test("there may be so many, and no more", () => {
  const keys = Array.from({ length: maxReplayKeys + 1 }, () => "{}");
  expect(parseKeys(keys.slice(1))).toHaveLength(maxReplayKeys);
  expect(() => parseKeys(keys)).toThrow("the whole table");
});

test("the lines tell what was sent, and which keys have no row", () => {
  expect(replayLines(task())).toEqual(["public.orders: Pending, task t1"]);
  const result = { rows: 1_234, missing: [{ id: 8 }], as_of_lsn: "0/1A" };
  expect(replayLines(task({ state: "Done", result }))).toEqual([
    "public.orders: 1,234 rows sent again, 1 not at the source, as of 0/1A",
    '  no row {"id":8}',
  ]);
});
