// Replays in the words of the page, and the keys that somebody writes down.

import { describe, expect, test } from "bun:test";
import { readKeys } from "../../../../console/pages/connector/tasks/given-keys.ts";
import { resultsOf } from "../../../../console/pages/connector/tasks/results-of.ts";
import { replayText, sentText, taskNoun } from "../../../../console/pages/connector/tasks/task-words.ts";
import { plural } from "../../../../console/text/numbers.ts";

const spec = { database: "shop", schema: "public", name: "orders" };

describe("keys that are written down", () => {
  test("are JSON, one in each line", () => {
    expect(readKeys('{"id": 7}\n\n {"a": "x", "b": true} \n')).toEqual({
      keys: [{ id: 7 }, { a: "x", b: true }],
    });
    expect(readKeys(" \n")).toEqual({ keys: [] });
  });

  test.each(["7", "id = 7", "[1]", "null"])("%s is none: the line is told", (line) => {
    expect(readKeys(`{"id": 1}\n\n${line}`)).toEqual({ wrong: 3 });
  });
});

test("a replay tells what it sends, and what it has sent", () => {
  expect(taskNoun({ ...({} as Parameters<typeof taskNoun>[0]), spec: { Replay: spec } })).toBe("Replay");
  expect(replayText(spec)).toBe("sends the whole table again");
  expect(replayText({ ...spec, keys: [{ id: 1 }, { id: 2 }] })).toBe(`sends ${plural(2, "row")} again`);
  const result = { rows: 1, missing: [{ id: 2 }], as_of_lsn: "0/1A" };
  expect(sentText(result)).toBe(`${plural(1, "row")} sent, ${plural(1, "key")} without a row`);
  expect(resultsOf({ result })).toEqual({ found: null, sent: result });
  expect(resultsOf({})).toEqual({ found: null, sent: null });
});
