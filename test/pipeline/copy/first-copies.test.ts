// First copies beside the stream, without servers: what comes of the others when one fails.

import { expect, test } from "bun:test";
import { lsn } from "../../../src/change/lsn.ts";
import type { TableShape } from "../../../src/change/relation.ts";
import { untilAborted } from "../../../src/change/until-aborted.ts";
import type { BesideStream } from "../../../src/pipeline/copy/copy-beside-stream.ts";
import { defaultCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import { CopyRoom } from "../../../src/pipeline/copy/copy-room.ts";
import { copyFirst, FirstCopies } from "../../../src/pipeline/copy/first-copies.ts";
import { UnreadableTables } from "../../../src/pipeline/copy/unreadable-tables.ts";
import { ProgressMeter } from "../../../src/pipeline/progress-meter.ts";
import type { CopyBeside, Sink } from "../../../src/sink/sink.ts";
import { relation } from "../../support/batch-fixture.ts";

const never = new AbortController().signal;
const point = { lsn: lsn(1n), timeUs: 0n, snapshotName: "", log: "", async [Symbol.asyncDispose]() {} };

function shapeOf(name: string, id: number): TableShape {
  return {
    ...{
      relation: relation(name, [["id", 23, "integer"]], { id, key: [0] }),
      primaryKey: ["id"],
      notNull: ["id"],
    },
    ...{ isPartitioned: false, estimatedRows: 0, estimatedBytes: 0, storage: "1" },
  };
}

const beside = {
  source: {
    measure: async () => null,
    snapshotPoint: async () => point,
    copyTable: () => ({ chunks: (async function* () {})(), rowsRead: () => 0 }),
  },
  place: { passed: async () => {} },
  room: new CopyRoom(2),
  parallel: 2,
  pace: defaultCopyPace,
  turn: (action: () => Promise<unknown>) => action(),
} as unknown as BesideStream;

/** As a sink's that lays aside what the stream brings. */
function copyOf(steps: Partial<CopyBeside>): CopyBeside {
  return {
    ...{ form: "text", takesAfterPoint: false, takesInTurn: false, laysAside: true, waitsForOthers: false },
    ...{ divide: async () => null, take: async () => {}, compare: async () => {} },
    settle: async () => ({ isMore: false, isHeld: false, owed: [] }),
    async [Symbol.asyncDispose]() {},
    ...steps,
  };
}

test("what was laid aside of one cannot be applied: the run ends at once, and not behind the others", async () => {
  const failing = copyOf({ settle: () => Promise.reject(new Error("refused")) });
  let stop = never;
  const slow = copyOf({ take: () => untilAborted(new Promise(() => {}), stop) });
  const copies = [failing, slow];
  const beginBeside: Sink["beginBeside"] = async (_, __, signal) => {
    stop = signal;
    return copies.shift() ?? null;
  };
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const request = { sink: { beginBeside } as Sink, meter, reporter: { passing() {} } };
  using unreadable = new UnreadableTables();
  const first = new FirstCopies(request, unreadable);
  const told = Promise.withResolvers<Parameters<Parameters<FirstCopies["onBegun"]>[0]>[0]>();
  first.onBegun(told.resolve);
  expect(await first.begin([shapeOf("a", 1), shapeOf("b", 2)])).toEqual([]);
  await expect(copyFirst(beside, first, await told.promise, never)).rejects.toThrow("refused");
  expect(first.cut.signal.aborted).toBe(true);
});

test("tables that wait for others are told of behind those that are made together, one by one; where one cannot go beside, none of them does", async () => {
  const groups: string[][] = [];
  const sink = {
    beginBeside: async ({ relation: { name } }: TableShape) =>
      name === "between" ? null : copyOf({ waitsForOthers: name.startsWith("waits") }),
  } as unknown as Sink;
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  using unreadable = new UnreadableTables();
  const first = new FirstCopies({ sink, meter, reporter: { passing() {} } }, unreadable);
  first.onBegun((begun) => groups.push(begun.map(({ table }) => table.relation.name)));
  const tables = ["waits1", "a", "waits2", "b"].map((name, i) => shapeOf(name, i + 1));
  expect(await first.begin(tables, true)).toEqual([]);
  expect(groups).toEqual([["a", "b"], ["waits1"], ["waits2"]]);
  const others = ["waits3", "c", "between"].map((name, i) => shapeOf(name, i + 10));
  const left = await first.begin(others, true);
  expect(left.map(({ relation: { name } }) => name)).toEqual(["waits3", "between"]);
  expect(groups.at(-1)).toEqual(["c"]);
});
