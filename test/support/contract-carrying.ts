// What the pipeline does with a sink, done by hand: a beginning, batches, copies. For the contract suites.

import type { ChangeBatch } from "../../src/change/change-batch.ts";
import type { Checkpoint } from "../../src/change/checkpoint.ts";
import { qualifiedName, type TableShape } from "../../src/change/relation.ts";
import type { CopyRequest, Sink } from "../../src/sink/sink.ts";
import { batches, type FixtureTransaction } from "./batch-fixture.ts";
import type { SinkLife } from "./contract-bench.ts";
import { beginning, type ContractRow, contractTables, pointBehind } from "./contract-history.ts";

export interface CopyOptions {
  readonly mode?: CopyRequest["mode"];
  readonly part?: CopyRequest["part"];
  /** As of behind so many transactions. */
  readonly behind?: number;
  readonly progress?: CopyRequest["progress"];
  /** Runs when the sink has taken the first half of the rows, and asks for more. */
  readonly amid?: () => Promise<unknown>;
}

/** Rows as a source gives them: COPY's text, in two chunks, each in memory that is used again once the sink asks for more. */
export function copyOf(
  table: TableShape,
  rows: readonly ContractRow[],
  options: CopyOptions = {},
): CopyRequest {
  const { mode = "initial", part, behind = 0, progress = () => {}, amid } = options;
  const half = rows.length >> 1;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield* leased(chunkOf(rows.slice(0, half)));
    await amid?.();
    yield* leased(chunkOf(rows.slice(half)));
  }
  return {
    ...{ table, form: "text", mode, chunks: chunks(), rowsRead: () => rows.length, progress },
    ...pointBehind(behind),
    ...(part ? { part } : {}),
  };
}

function* leased(chunk: Uint8Array): Generator<Uint8Array> {
  yield chunk;
  chunk.fill(0xee);
}

function chunkOf(rows: readonly ContractRow[]): Uint8Array {
  return new Uint8Array(Buffer.from(rows.map(({ id, v }) => `${id}\t${v}\n`).join("")));
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

/** As `openOrBegin`; and both tables have their copies, which are empty. */
export async function ready(sink: Sink): Promise<Checkpoint> {
  const from = await openOrBegin(sink);
  const { missing } = await sink.prepare(contractTables, ["text"]);
  for (const table of missing) await sink.copyTable(copyOf(table, []));
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
