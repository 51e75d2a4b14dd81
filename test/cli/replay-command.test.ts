import { expect, test } from "bun:test";
import { parseKeys, replayLines } from "../../src/cli/replay-command.ts";
import { maxReplayKeys } from "../../src/connector/replay.ts";
import type { Task } from "../../src/connector/task.ts";

const task = (more: Partial<Task> = {}): Task => ({
  ...{ id: "t1", state: "Pending", created_at: "2026-01-01T00:00:00.000Z", attempt: 0 },
  spec: { Replay: { database: "shop", schema: "public", name: "orders" } },
  ...more,
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
