// What the pipeline does with a sink, done by hand: a beginning, batches, copies. For the contract suites.

import type { ChangeBatch } from "../../../src/change/change-batch.ts";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import type { PageRange } from "../../../src/change/page-range.ts";
import { qualifiedName, type TableShape } from "../../../src/change/relation.ts";
import type { CopyChunk, CopyMode, TableCopy } from "../../../src/sink/copy-sink.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { batches, type FixtureTransaction } from "../rows/batch-fixture.ts";
import type { SinkBench, SinkLife } from "./bench.ts";
import { beginning, type ContractRow, contractTables, pointBehind } from "./history.ts";

export interface ChunkOptions extends Partial<Pick<CopyChunk, "part" | "progress">> {
  /** As of behind so many transactions. */
  readonly behind?: number;
  /** Runs when the sink has taken the first half of the rows, and asks for more. */
  readonly amid?: () => Promise<unknown>;
}

export interface CopyOptions extends ChunkOptions {
  readonly mode?: CopyMode;
}

/** A signal that does not fire. */
export const never = new AbortController().signal;
/** So small that a chunk may end within a row. */
const lentBytes = 7;
/** No two points are taken at one time, though they are as of one place. */
let pointsTaken = 0n;

/** Rows as a source gives them: COPY's text, in small pieces, all in the same memory. Columns behind the first two are null. */
export function chunkOf(
  table: TableShape,
  rows: readonly ContractRow[],
  { part, behind = 0, progress = () => {}, amid }: ChunkOptions = {},
): CopyChunk {
  const half = rows.length >> 1;
  const rest = "\t\\N".repeat(table.relation.columns.length - 2);
  const lines = rows.map(({ id, v }) => `${id}\t${v}${rest}\n`);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield* lent(lines.slice(0, half).join(""));
    await amid?.();
    yield* lent(lines.slice(half).join(""));
  }
  const { lsn, timeUs } = pointBehind(behind);
  return {
    table,
    form: "text",
    chunks: chunks(),
    rowsRead: () => rows.length,
    progress,
    lsn,
    timeUs: timeUs + pointsTaken++,
    ...(part ? { part } : {}),
  };
}

/** What a chunk was given in is written over as soon as the next one is asked for. */
function* lent(text: string): Generator<Uint8Array> {
  const bytes = Buffer.from(text);
  const memory = new Uint8Array(lentBytes);
  for (let at = 0; at < bytes.length; at += lentBytes) {
    const piece = bytes.subarray(at, at + lentBytes);
    memory.set(piece);
    yield memory.subarray(0, piece.length);
    memory.fill(0xee);
  }
}

/** Copies a table as one chunk, between two batches. */
export async function copyTable(
  sink: Sink,
  table: TableShape,
  rows: readonly ContractRow[],
  { mode = "initial", ...options }: CopyOptions = {},
): Promise<void> {
  await using copy = await sink.copies.begin(table, mode, "waits", never);
  await copy.start(false);
  await copy.take(chunkOf(table, rows, options));
  await finishWaiting(copy);
}

/** Of a copy that the stream waits for: no row is incomplete. */
export async function finishWaiting(copy: TableCopy): Promise<void> {
  while ((await copy.finish()) !== "all") {}
}

/** Opens the sink, and begins where it has not begun. Returns where the stream goes on. */
export async function openOrBegin(sink: Sink): Promise<Checkpoint> {
  const known = await sink.open();
  if (known) return known;
  await sink.begin(beginning);
  return beginning;
}

export async function missingOf(sink: Sink, tables = contractTables): Promise<readonly string[]> {
  const { missing } = await sink.prepare(tables, ["text"]);
  return missing.map(({ relation }) => qualifiedName(relation));
}

/** The ranges in their order, those that follow each other as one: a sink may hold them so. */
export function joined(ranges: readonly PageRange[]): readonly PageRange[] {
  const inOrder: { from: number; to: number | null }[] = [];
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = inOrder.at(-1);
    if (last?.to === from) last.to = to;
    else inOrder.push({ from, to });
  }
  return inOrder;
}

/** A life that has begun, and has looked at its tables. */
export async function prepared(
  bench: SinkBench,
): Promise<{ readonly life: SinkLife; readonly sink: Sink; readonly missing: readonly string[] }> {
  const life = await bench.live();
  await openOrBegin(life.sink);
  return { life, sink: life.sink, missing: await missingOf(life.sink) };
}

/** As `openOrBegin`; and both tables have their copies, which are empty. */
export async function ready(sink: Sink): Promise<Checkpoint> {
  const from = await openOrBegin(sink);
  const { missing } = await sink.prepare(contractTables, ["text"]);
  for (const table of missing) await copyTable(sink, table, []);
  return from;
}

/** Writes the batch, and gives its memory to others. */
export async function writeAndReuse(sink: Sink, batch: ChangeBatch): Promise<void> {
  await sink.write(batch);
  // Of a buffer that has moved to another thread nothing is left here.
  if (batch.arena.byteLength > 0) batch.arena.fill(0xff);
}

/** Writes what is not done under `from`, in batches of so many changes. */
export async function carry(
  { sink }: Pick<SinkLife, "sink">,
  transactions: readonly FixtureTransaction[],
  options: { from?: Checkpoint; perBatch?: number } = {},
): Promise<void> {
  for (const batch of batches(transactions, options)) await writeAndReuse(sink, batch);
}

/** What the life comes to: true; or false where it died before. */
export async function lived(life: SinkLife, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!life.isDead) throw error;
    return false;
  }
}

/** No call waits for longer, on the slowest of machines. */
const boundMs = 20_000;

/** What the call comes to: its failure, or null. Throws where it comes to nothing. */
export async function outcomeOf(what: string, call: Promise<unknown>): Promise<unknown> {
  let timer: Timer | undefined;
  const bound = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} has not ended after ${boundMs} ms`)), boundMs);
  });
  const ended = call.then(
    () => null,
    (error: unknown) => error,
  );
  try {
    return await Promise.race([ended, bound]);
  } finally {
    clearTimeout(timer);
  }
}
