// A stream beside which tables are copied, done by hand as the pipeline does it: for the suites of the sinks' contract.

import { expect } from "bun:test";
import type { Checkpoint } from "../../src/change/checkpoint.ts";
import type { PageRange } from "../../src/change/page-range.ts";
import type { TableShape } from "../../src/change/relation.ts";
import type { CopyMode, StartedCopy, TableCopy } from "../../src/sink/copy-sink.ts";
import type { Sink } from "../../src/sink/sink.ts";
import { type FixtureTransaction, transaction, unchanged } from "./batch-fixture.ts";
import type { SinkKind, SinkLife } from "./contract-bench.ts";
import { carry, chunkOf, copyTable, missingOf, never, openOrBegin } from "./contract-carrying.ts";
import {
  accounts,
  type ContractRow,
  entries,
  history,
  insert,
  remove,
  rowsAfter,
  update,
} from "./contract-history.ts";

/** Rows that were there before the stream began. */
export const base = [
  transaction(
    -1,
    [100, 101, 102, 103].map((id) => insert(accounts, id, "base")),
  ),
];

/** Some of the rows of before are changed, at several places. */
export const changes = history(7, 12).map(({ changes: some }, i) => {
  const more = [];
  if (i % 3 === 2) more.push(update(103, unchanged));
  if (i === 4) more.push(update(102, "before the point"));
  if (i === 6) more.push(update(100, "behind the point"), remove(101));
  return transaction(i + 1, [...some, ...more]);
});

export const stray = { id: 900, v: "stray" };

/** Which rows lie where does not change: what moves is in tests of its own. */
export const ranges: readonly { readonly range: PageRange; readonly isIn: (row: ContractRow) => boolean }[] =
  [
    { range: { from: 0, to: 4 }, isIn: ({ id }) => id % 3 === 0 },
    { range: { from: 4, to: 8 }, isIn: ({ id }) => id % 3 === 1 },
    { range: { from: 8, to: null }, isIn: ({ id }) => id % 3 === 2 },
  ];

/** One life with its stream, which has brought the first `written` transactions. */
export class Streaming {
  readonly asked: string[] = [];
  written = 0;

  constructor(
    private readonly life: Pick<SinkLife, "sink">,
    private readonly from: Checkpoint,
    readonly transactions: readonly FixtureTransaction[] = changes,
  ) {}

  get sink(): Sink {
    return this.life.sink;
  }

  /** The source's rows, behind so many of the transactions. */
  rows(count = this.written): readonly ContractRow[] {
    return rowsAfter([...base, ...this.transactions.slice(0, count)]).accounts;
  }

  /** Until so many transactions are written. */
  async write(to: number): Promise<void> {
    const next = this.transactions.slice(this.written, to);
    this.written = Math.max(this.written, to);
    await carry(this.life, next, { from: this.from, perBatch: 3 });
  }

  async begin(mode: CopyMode, stop = never, table = accounts): Promise<TableCopy> {
    const copy = await this.sink.copies.begin(table, mode, "runs", stop);
    expect(copy.stream).toBe("runs");
    return copy;
  }

  async start(copy: TableCopy, isDivided: boolean): Promise<StartedCopy> {
    const started = await copy.start(isDivided);
    expect(started.form).toBe("text");
    return started;
  }

  /** A chunk as of where the stream is, or of before. */
  async take(
    copy: TableCopy,
    at = this.written,
    range: (typeof ranges)[number] | null | undefined = null,
  ): Promise<void> {
    const rows = this.rows(at).filter((row) => range?.isIn(row) ?? true);
    const part = range ? { part: { kind: "range", range: range.range } as const } : {};
    await copy.take(chunkOf(accounts, rows, { behind: at, ...part }));
  }

  async settle(copy: TableCopy): Promise<void> {
    while ((await copy.settle()) !== "all") {}
  }

  /** What it asks for by the keys is as of where the stream is. */
  async finish(copy: TableCopy, table: TableShape = accounts): Promise<void> {
    for (let isMade = false; !isMade; ) {
      const { left, incomplete: keys } = await copy.finish();
      isMade = left === "all" && keys.length === 0;
      if (keys.length === 0) continue;
      const ids = new Set(keys.map(([id]) => id ?? ""));
      this.asked.push(...ids);
      const rows = this.rows().filter(({ id }) => ids.has(String(id)));
      const options = { part: { kind: "rows", keys } as const, behind: this.written };
      await this.sink.copies.takeRows(chunkOf(table, rows, options));
    }
  }
}

export const modes = ["initial", "merge", "replace"] as const;
export const ways = modes.flatMap((mode) => [
  [mode, "whole", false] as const,
  [mode, "in ranges", true] as const,
]);

/** `strays`: rows that the sink has in the end and the source has not. */
export async function begun(
  { removesRows }: Pick<SinkKind, "removesRows">,
  life: Pick<SinkLife, "sink">,
  mode: CopyMode,
  transactions: readonly FixtureTransaction[] = changes,
): Promise<{ readonly stream: Streaming; readonly strays: readonly ContractRow[] }> {
  const { sink } = life;
  const from = await openOrBegin(sink);
  await missingOf(sink);
  await copyTable(sink, entries, []);
  const stream = new Streaming(life, from, transactions);
  if (mode === "initial") return { stream, strays: [] };
  await copyTable(sink, accounts, [...stream.rows(0), stray]);
  return { stream, strays: mode === "replace" && removesRows ? [] : [stray] };
}
