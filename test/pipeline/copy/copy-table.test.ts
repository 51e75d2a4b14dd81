// How one table is copied: when its chunks are read, taken and settled, and what comes of rows that are incomplete, of failures, and of
// the word to stop. Without servers.

import { describe, expect, test } from "bun:test";
import type { PageRange } from "../../../src/change/page-range.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { type CopyEnvironment, pointsFromNow } from "../../../src/pipeline/copy/copy-environment.ts";
import { type CopyPace, defaultCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import {
  copyChunks,
  copyRows,
  finishCopy,
  ReadFailure,
  startCopy,
} from "../../../src/pipeline/copy/copy-table.ts";
import type { CopySink, TableCopy } from "../../../src/sink/copy-sink.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import {
  copyEnvironment,
  runningStream,
  scriptedCopy,
  textOf,
} from "../../support/pipeline/scripted-copy.ts";

const never = new AbortController().signal;
/** Every table is large, and a range of two rows. */
const small: CopyPace = {
  ...defaultCopyPace,
  dividedFromBytes: 1,
  rangeBytes: 16_384,
  firstRangeBytes: 16_384,
};
const rows = Array.from({ length: 8 }, (_, id) => [id, `v${id}`] as const);

function begun(copy: TableCopy, change: Partial<CopyEnvironment> = {}) {
  const source = new MemorySource();
  const table = source.add("t", rows);
  const told: (readonly [number, number])[] = [];
  const progress = (taken: number, bytes: number) => void told.push([taken, bytes]);
  const environment = copyEnvironment(source, {}, change);
  return { source, told, environment, of: { table, copy, signal: never, progress } };
}

async function copyAll(environment: CopyEnvironment, of: ReturnType<typeof begun>["of"], stop?: AbortSignal) {
  const started = await startCopy(environment, of);
  await using points = await pointsFromNow(environment, never);
  return await copyChunks(environment, started, points, stop);
}

test("beside the stream a chunk is read once its point was passed, and settled between batches", async () => {
  const log: string[] = [];
  let pieces = 3;
  const settle = async () => {
    log.push("settle");
    return --pieces > 0 ? ("more" as const) : ("all" as const);
  };
  const { source, environment, of } = begun(scriptedCopy(log, { settle }), runningStream(log));
  expect(await copyAll(environment, of)).toBe(true);
  expect(await finishCopy(environment, of)).toBe("all");
  const between = (what: string) => ["[", what, "]"];
  const settled = Array.from({ length: 3 }, () => between("settle")).flat();
  expect(log).toEqual([
    ...between("start"),
    `passed ${source.reads[0]?.lsn}`,
    "take",
    ...settled,
    ...between("finish"),
  ]);
  expect(source.openPoints).toBe(0);
});

test("while the stream waits no point is waited for, and a chunk is all there when it was taken", async () => {
  const log: string[] = [];
  const { environment, of } = begun(scriptedCopy(log, { stream: "waits" }), runningStream(log));
  await copyAll(environment, of);
  expect(log).toEqual(["[", "start", "]", "take"]);
});

test("what somebody holds at the sink is tried again", async () => {
  const log: string[] = [];
  const answers = ["locked", "all"] as const;
  let [settles, finishes] = [0, 0];
  const copy = scriptedCopy(log, {
    settle: async () => answers[settles++]!,
    finish: async () => answers[finishes++]!,
  });
  const { environment, of } = begun(copy);
  await copyAll(environment, of);
  await finishCopy(environment, of);
  expect([settles, finishes]).toEqual([2, 2]);
});

describe("a table in ranges", () => {
  test("is taken in all that are not done, those that were begun as they were", async () => {
    const taken = new Map<PageRange, string>();
    const done = [{ from: 0, to: 2 }];
    const again = [{ from: 5, to: 6 }];
    const copy = scriptedCopy([], {
      start: async () => ({ form: "text", ranges: { done, rows: 20, begun: again } }),
      async take(chunk) {
        if (chunk.part?.kind === "range") taken.set(chunk.part.range, await textOf(chunk));
        chunk.progress(1, 10);
      },
    });
    const { environment, of, told } = begun(copy, { pace: small, parallel: 1 });
    expect(await copyAll(environment, of)).toBe(true);
    const ranges = [...taken.keys()];
    expect(ranges[0]).toEqual(again[0]!);
    expect(ranges.toSorted((a, b) => a.from - b.from).map(({ from }) => from)).toEqual([2, 4, 5, 6]);
    const ids = [...taken.values()].flatMap((text) =>
      text
        .split("\n")
        .filter(Boolean)
        .map((row) => row[0]),
    );
    expect(ids.toSorted()).toEqual(["2", "3", "4", "5", "6", "7"]);
    // With the rows of ranges that were done before.
    expect(told[0]).toEqual([20, 0]);
    expect(told.at(-1)).toEqual([20 + ranges.length, 10 * ranges.length]);
  });

  test("has no more of them begun when the run is to stop, and is not all there then", async () => {
    const stop = new AbortController();
    let taken = 0;
    const copy = scriptedCopy([], {
      async take() {
        taken++;
        stop.abort();
      },
    });
    const { environment, of } = begun(copy, { pace: small, parallel: 1 });
    expect(await copyAll(environment, of, stop.signal)).toBe(false);
    expect(taken).toBe(1);
  });

  test("comes whole where the sink does not take ranges, or it is small", async () => {
    const parts: unknown[] = [];
    const taking: Partial<TableCopy> = { take: async ({ part }) => void parts.push(part) };
    const whole = begun(
      scriptedCopy([], { ...taking, start: async () => ({ form: "text", ranges: null }) }),
      { pace: small },
    );
    expect(await copyAll(whole.environment, whole.of)).toBe(true);
    const few = begun(scriptedCopy([], taking));
    expect(await copyAll(few.environment, few.of)).toBe(true);
    expect(parts).toEqual([undefined, undefined]);
  });
});

describe("rows that are incomplete", () => {
  test("are completed before the next batch, when the copy is made", async () => {
    const log: string[] = [];
    const answers = ["more", "incomplete"] as const;
    let finishes = 0;
    const copy = scriptedCopy(log, { finish: async () => answers[finishes++]! });
    const { environment, of } = begun(copy, runningStream(log));
    expect(await finishCopy(environment, of, async () => void log.push("complete"))).toBe("incomplete");
    expect(log).toEqual(["[", "]", "[", "complete", "]"]);
  });

  test("are not asked for where there are none", async () => {
    const { environment, of } = begun(scriptedCopy([]));
    const complete = () => Promise.reject(new Error("nothing is incomplete"));
    expect(await finishCopy(environment, of, complete)).toBe("all");
  });

  test("are read by their keys, and the sink takes them over what it has", async () => {
    const taken: string[] = [];
    const takeRows: CopySink["takeRows"] = async (chunk) => {
      expect(chunk.part).toEqual({ kind: "rows", keys: [["3"], ["9"]] });
      taken.push(await textOf(chunk));
    };
    const { source, environment, of } = begun(scriptedCopy([]), {
      sink: {
        flush: async () => {},
        copies: { begin: () => Promise.reject(new Error("it has begun")), rowsForm: () => "text", takeRows },
      },
    });
    await using point = await source.snapshotPoint(of.signal);
    await copyRows(environment, { table: of.table, keys: [["3"], ["9"]], signal: of.signal }, point);
    expect(taken).toEqual(["3\tv3\n"]);
    expect(source.reads[0]!.lsn).toBe(point.lsn);
  });
});

describe("a failure", () => {
  test("of the source is told as such, whatever the sink made of it", async () => {
    const denied = new MillraceError("source_permission_denied", "It may not be read.");
    const copy = scriptedCopy([], {
      take: (chunk) =>
        textOf(chunk).then(
          () => {},
          () => Promise.reject(new Error("the sink's copy was broken off")),
        ),
    });
    const { source, environment, of } = begun(copy);
    source.failures.set("t", denied);
    const failure = await copyAll(environment, of).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ReadFailure);
    expect(failure).toMatchObject({ code: denied.code, message: denied.message });
    expect(source.openPoints).toBe(0);
  });

  test("of the sink is told as it is, and nothing else of the table begins", async () => {
    const refused = new MillraceError("sink_rejected_rows", "It is refused.");
    let taken = 0;
    const copy = scriptedCopy([], {
      take: () => {
        taken++;
        return Promise.reject(refused);
      },
    });
    const { environment, of } = begun(copy, { pace: small, parallel: 1 });
    expect(await copyAll(environment, of).catch((error: unknown) => error)).toBe(refused);
    expect(taken).toBe(1);
  });

  test("is the reason of its signal where that has fired, though the source stands still", async () => {
    const stop = new AbortController();
    const reason = new Error("cut");
    const { source, environment, of } = begun(scriptedCopy([]));
    source.measure = () => new Promise(() => {});
    const starting = startCopy(environment, { ...of, signal: stop.signal });
    stop.abort(reason);
    expect(await starting.catch((error: unknown) => error)).toBe(reason);
  });
});
