// Writes status records in order while the store is unavailable for a while. The store is a list that a test can
// disable; state/stores tests the real one.

import { expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { createLog } from "../../../src/log.ts";
import { HistoryWriter } from "../../../src/runtime/status/history-writer.ts";
import type { HistoryRecord } from "../../../src/state/stores/history-store.ts";
import { waitFor } from "../../support/wait-for.ts";

function rig() {
  const lines: string[] = [];
  const kept: string[] = [];
  const store = {
    failure: null as Error | null,
    append: async ({ id }: HistoryRecord) => {
      await Bun.sleep(1);
      if (store.failure) throw store.failure;
      kept.push(id);
    },
  };
  const log = createLog({ level: "debug", readable: false, write: (line) => lines.push(line) });
  const writer = new HistoryWriter(store, log);
  const add = (...ids: readonly string[]) => {
    for (const id of ids) {
      const status = { state: { start: {} }, status: { start: {} } };
      writer.add({
        id,
        connectorId: "c",
        runId: "r",
        component: "Source",
        status,
        createdAt: new Date(),
        term: null,
      });
    }
  };
  return { lines, kept, store, writer, add };
}

const away = new MillraceError("state_unavailable", "The state store failed: nothing answers");

test("events during an outage are stored afterwards, in order, and reported once", async () => {
  const { kept, store, writer, add, lines } = rig();
  await using _writer = writer;
  add("1", "2");
  await writer.flush();
  store.failure = away;
  add("3");
  await writer.flush();
  add("4", "5");
  await writer.flush();
  expect(kept).toEqual(["1", "2"]);
  expect(lines.filter((line) => line.includes("wait for it"))).toHaveLength(1);
  store.failure = null;
  await waitFor("what has waited", () => kept.length === 5, { timeoutMs: 10_000 });
  add("6");
  await writer.flush();
  expect(kept).toEqual(["1", "2", "3", "4", "5", "6"]);
});

test("only a refused record is lost, and the records still pending at the end are reported", async () => {
  const { kept, store, writer, add, lines } = rig();
  store.failure = new Error("a fault");
  add("1");
  await writer.flush();
  store.failure = null;
  add("2");
  await writer.flush();
  expect(kept).toEqual(["2"]);
  store.failure = away;
  add("3", "4");
  await writer[Symbol.asyncDispose]();
  expect(lines.filter((line) => line.includes("lost"))).toHaveLength(2);
  expect(lines.at(-1)).toContain('"records":2');
});
