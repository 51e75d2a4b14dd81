// A stream beside which tables are copied, done by hand as the pipeline does it: for the suites of the sinks' contract.

import { expect } from "bun:test";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import type { PageRange } from "../../../src/change/page-range.ts";
import type { CopyMode, StartedCopy, TableCopy } from "../../../src/sink/copy-sink.ts";
import type { IncompleteRows, Sink } from "../../../src/sink/sink.ts";
import { pick } from "../matrix.ts";
import { type FixtureTransaction, transaction, unchanged } from "../rows/batch-fixture.ts";
import type { SinkKind, SinkLife } from "./bench.ts";
import { carry, chunkOf, copyTable, missingOf, never, openOrBegin } from "./carrying.ts";
import {
  accounts,
  type ContractRow,
  contractTables,
  entries,
  history,
  insert,
  remove,
  rowsAfter,
  update,
} from "./history.ts";

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
  async finish(copy: TableCopy): Promise<void> {
    let left = await copy.finish();
    while (left === "more" || left === "locked") left = await copy.finish();
    if (left === "incomplete") await this.complete();
  }

  /** Copies rows by their keys that the sink says are incomplete, until there are none: as of behind `at` transactions. */
  async complete(at = this.written, rows = this.rows(at)): Promise<void> {
    for (let some = await this.incomplete(); some.length > 0; some = await this.incomplete())
      await this.takeRows(some, at, rows);
  }

  async takeRows(incomplete: readonly IncompleteRows[], at: number, rows = this.rows(at)): Promise<void> {
    for (const { table, keys } of incomplete) {
      const ids = new Set(keys.map(([id]) => id ?? ""));
      this.asked.push(...ids);
      const found = rows.filter(({ id }) => ids.has(String(id)));
      const options = { part: { kind: "rows", keys } as const, behind: at };
      await this.sink.copies.takeRows(chunkOf(table, found, options));
    }
  }

  async incomplete(): Promise<readonly IncompleteRows[]> {
    return (await this.sink.prepare(contractTables, ["text"])).incomplete ?? [];
  }
}

export const modes = ["initial", "merge", "replace"] as const;

/** How a copy may come to a sink of the kind. */
export function waysOf({ takesRanges }: Pick<SinkKind, "takesRanges">) {
  return modes.flatMap((mode) => [
    [mode, "whole", false] as const,
    ...(takesRanges ? [[mode, "in ranges", true] as const] : []),
  ]);
}

/** Those of every day: each mode once, whole or in ranges. */
export const everydayWaysOf = (kind: Pick<SinkKind, "takesRanges">) =>
  pick(waysOf(kind), ([mode, _, isDivided]) => !kind.takesRanges || isDivided === (mode !== "initial"));

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
