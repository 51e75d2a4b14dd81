import { describe, expect, test } from "bun:test";
import type { RecordsBatch } from "@platformatic/kafka";
import { CommittedRecords } from "../../../../src/sink/kafka/checkpoint/committed-records.ts";

type Pair = readonly [key: string, value: string | null];

const transactional = 1 << 4;
const control = 1 << 5;

/** A partition's log, batch by batch. */
class Log {
  readonly records = new CommittedRecords();
  #offset = 0n;

  add(producerId: bigint, pairs: readonly Pair[], attributes = transactional, from = 0n): void {
    const firstOffset = this.#offset;
    this.#offset += BigInt(pairs.length);
    const records = pairs.map(([key, value], offsetDelta) => ({
      offsetDelta,
      key: Buffer.from(key),
      value: value === null ? null : Buffer.from(value),
      headers: [[Buffer.from("run"), Buffer.from(`${producerId}`)]],
    }));
    this.records.add({ attributes, producerId, firstOffset, records } as unknown as RecordsBatch, from);
  }

  /** As a broker writes it: version, and what became of the transaction. */
  end(producerId: bigint, end: "commit" | "abort"): void {
    const key = Buffer.from([0, 0, 0, end === "commit" ? 1 : 0]);
    const batch = { attributes: transactional | control, producerId, firstOffset: this.#offset++ };
    this.records.add({ ...batch, records: [{ offsetDelta: 0, key, value: null, headers: [] }] } as never, 0n);
  }

  get values(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.records.values].map(([key, { text }]) => [key, text]));
  }
}

describe("what is committed of a partition", () => {
  test("is the last value of each key, with its headers", () => {
    const log = new Log();
    log.add(1n, [
      ["a", "1"],
      ["b", "1"],
      ["a", "2"],
    ]);
    log.end(1n, "commit");
    expect(log.values).toEqual({ a: "2", b: "1" });
    expect(log.records.values.get("a")?.headers.get("run")).toBe("1");
  });

  test("has nothing of a transaction that was aborted, or is not decided", () => {
    const log = new Log();
    log.add(1n, [["a", "first"]]);
    log.end(1n, "commit");
    log.add(1n, [
      ["a", "aborted"],
      ["b", "aborted"],
    ]);
    log.end(1n, "abort");
    log.add(1n, [["a", "open"]]);
    expect(log.values).toEqual({ a: "first" });
    log.end(1n, "commit");
    expect(log.values).toEqual({ a: "open" });
  });

  test("has transactions whole, though batches of other producers lie between theirs", () => {
    const log = new Log();
    log.add(1n, [["a", "one"]]);
    log.add(2n, [["b", "two"]]);
    log.add(1n, [["c", "one"]]);
    log.end(2n, "commit");
    expect(log.values).toEqual({ b: "two" });
    log.add(3n, [["a", "three"]]);
    log.end(3n, "commit");
    log.end(1n, "commit");
    expect(log.values).toEqual({ b: "two", a: "one", c: "one" });
  });

  test("lacks keys that were removed, and has those that came again", () => {
    const log = new Log();
    log.add(1n, [
      ["a", "1"],
      ["b", "1"],
    ]);
    log.end(1n, "commit");
    log.add(1n, [
      ["a", null],
      ["b", null],
      ["b", "2"],
    ]);
    log.end(1n, "abort");
    expect(log.values).toEqual({ a: "1", b: "1" });
    log.add(1n, [
      ["a", null],
      ["b", null],
      ["b", "2"],
    ]);
    log.end(1n, "commit");
    expect(log.values).toEqual({ b: "2" });
  });

  test("has what comes without a transaction at once", () => {
    const log = new Log();
    log.add(-1n, [["a", "1"]], 0);
    expect(log.values).toEqual({ a: "1" });
  });

  test("leaves out records before the offset that was asked for", () => {
    const log = new Log();
    const pairs: readonly Pair[] = [
      ["a", "before"],
      ["b", "behind"],
    ];
    log.add(1n, pairs, transactional, 1n);
    log.end(1n, "commit");
    expect(log.values).toEqual({ b: "behind" });
  });

  test("is not touched by a marker of a transaction of which nothing is left", () => {
    const log = new Log();
    log.end(1n, "commit");
    log.end(2n, "abort");
    expect(log.values).toEqual({});
  });
});
