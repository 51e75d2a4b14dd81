// Sends rows of a table again, as they are now: as an incremental copy, beside the stream, in which nothing counts as copied. The sink's
// contract, replay-sink.ts, says what keeps it in order with the stream.

import type { RowKey } from "../../change/copy-part.ts";
import { formatLsn, type Lsn, zeroLsn } from "../../change/lsn.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { GivenKey, ReplayResult } from "../../connector/replay.ts";
import type { ReplaySpec } from "../../connector/task.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { TableCopy } from "../../sink/copy-sink.ts";
import type { TableReplay } from "../../sink/replay-sink.ts";
import type { KeySource } from "../../source/key-source.ts";
import { type CopyEnvironment, passedPoint, pointsFromNow } from "../copy/copy-environment.ts";
import { copyChunks, copyKeys, finishCopy, type StartedTable, startCopy } from "../copy/copy-table.ts";
import type { OfferedTask } from "../run-reporter.ts";
import { findTable, type TaskContext } from "../tasks/task-context.ts";
import { textsOfKeys } from "./given-keys.ts";

/** Rows that were touched meanwhile are read again so often at most. */
const maxRounds = 20;
/** Of one chunk. */
const keysAtOnce = 5_000;

/** The keys to send, and as they were given. */
interface AskedKeys {
  readonly keys: readonly RowKey[];
  readonly given: readonly GivenKey[];
  readonly source: KeySource;
}

/** What is sent is durable on return. Throws why it cannot be sent, or the reason of `signal`. */
export async function replayForTask(
  environment: CopyEnvironment,
  context: TaskContext,
  task: OfferedTask,
  spec: ReplaySpec,
  signal: AbortSignal,
): Promise<ReplayResult> {
  const { replays } = environment.sink;
  if (!replays) throw notForThisSink();
  for (;;) {
    const table = await openTable(environment, context, task, signal);
    const asked = spec.keys ? await readKeys(environment, table, spec.keys) : null;
    const replayed = { id: task.id, keys: asked?.keys ?? null };
    await using replay = await environment.betweenBatches(
      async () => (context.first.isUnderWay(table) ? null : await replays.begin(table, replayed, signal)),
      signal,
    );
    if (replay) return await send(environment, { task, table, replay, asked, signal });
  }
}

interface Sending {
  readonly task: OfferedTask;
  readonly table: TableShape;
  readonly replay: TableReplay;
  readonly asked: AskedKeys | null;
  readonly signal: AbortSignal;
}

async function send(environment: CopyEnvironment, sending: Sending): Promise<ReplayResult> {
  const { task, table, replay, asked, signal } = sending;
  await passedPoint(environment, signal);
  const sent = new SentRows((rows, bytes) =>
    task.progress(rows, bytes, asked?.keys.length ?? table.estimatedRows),
  );
  const of = { table, copy: sent.watching(replay), signal, progress: sent.progress };
  const started = await startCopy(environment, of, asked !== null);
  let missing: ReadonlySet<number> = new Set();
  {
    await using points = await pointsFromNow(environment, signal);
    if (asked) {
      await points.use(async (point) => {
        missing = await asked.source.missing(table, point, asked.keys);
      });
      await copyKeys(environment, started, points, asked.keys);
    } else await copyChunks(environment, started, points);
  }
  await sendLeft(environment, started, replay, sent);
  await finishCopy(environment, started);
  const given = asked?.given.filter((_, at) => missing.has(at)) ?? [];
  return { rows: sent.rows, missing: given, as_of_lsn: formatLsn(sent.last) };
}

/** Reads rows again that changed between their point and their sending, and came with that change in part. */
async function sendLeft(
  environment: CopyEnvironment,
  started: StartedTable,
  replay: TableReplay,
  sent: SentRows,
): Promise<void> {
  for (let rounds = 0; rounds < maxRounds; rounds++) {
    const keys = await replay.left();
    if (keys.length === 0) return;
    await using points = await pointsFromNow(environment, started.signal);
    for (let at = 0; at < keys.length; at += keysAtOnce) {
      sent.goOn();
      await copyKeys(environment, started, points, keys.slice(at, at + keysAtOnce));
    }
  }
  throw new MillraceError(
    "table_changed",
    `Rows of ${qualifiedName(started.table.relation)} are changed too often to be read and sent between two changes: the replay begins again.`,
  );
}

/** Counts what is sent, over all chunks. */
class SentRows {
  #before = 0;
  #now = 0;
  /** The last point that rows were read as of. */
  last: Lsn = zeroLsn;

  constructor(private readonly tell: (rows: number, bytes: number) => void) {}

  get rows(): number {
    return this.#before + this.#now;
  }

  readonly progress = (rows: number, bytes: number): void => {
    this.#now = rows;
    this.tell(this.rows, bytes);
  };

  /** Other chunks follow, which are counted from 0. */
  goOn(): void {
    this.#before += this.#now;
    this.#now = 0;
  }

  watching(replay: TableReplay): TableCopy {
    return {
      stream: replay.stream,
      start: (isDivided) => replay.start(isDivided),
      take: (chunk) => {
        if (chunk.lsn > this.last) this.last = chunk.lsn;
        return replay.take(chunk);
      },
      settle: () => replay.settle(),
      finish: () => replay.finish(),
      [Symbol.asyncDispose]: () => replay[Symbol.asyncDispose](),
    };
  }
}

async function openTable(
  { source, betweenBatches }: CopyEnvironment,
  { currentTables, copyBlocker, first, copies }: TaskContext,
  task: OfferedTask,
  signal: AbortSignal,
): Promise<TableShape> {
  const table = await betweenBatches(
    async () => findTable(await currentTables(), source.database, task),
    signal,
  );
  // Its rows may be older than those that are sent again, and would come after them.
  await first.ended(table, signal);
  const reason = copyBlocker(table) ?? copies.unreadable.waitingFor(table);
  if (reason) throw reason;
  return table;
}

/** Each key once. */
async function readKeys(
  { source }: CopyEnvironment,
  table: TableShape,
  given: readonly GivenKey[],
): Promise<AskedKeys | null> {
  const { relation } = table;
  if (!source.keys) throw noReplay();
  // The sink says what a table without a key lacks.
  if (relation.key.length === 0 || relation.isKeyedByHash) return null;
  const texts = await source.keys.read(table, textsOfKeys(relation, given));
  const distinct = new Map(texts.map((key, at) => [JSON.stringify(key), { key, given: given[at]! }]));
  const each = [...distinct.values()];
  return { keys: each.map(({ key }) => key), given: each.map((one) => one.given), source: source.keys };
}

function notForThisSink(): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    "A Postgres sink is sent no rows again: a Verify task with repair Apply gives it the source's rows where its own differ.",
  );
}

/** Without a stream nothing says which rows are newer than others. */
export function noReplay(): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    "Without a stream each round sends all rows again, and nothing tells which of two rows is newer. Start the connector for another round.",
  );
}
