// A source over a real database, with a slot and a proxy before both, for the suites of the source's contract; and what of a stream and
// of a copy they look at.

import type { ChangeBatch } from "../../../src/change/change-batch.ts";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import type { ChangeStream } from "../../../src/source/change-stream.ts";
import { PostgresSource } from "../../../src/source/postgres/postgres-source.ts";
import { streamPace } from "../../../src/source/postgres/stream/feedback.ts";
import type { Source } from "../../../src/source/source.ts";
import type { TableRows } from "../../../src/source/table-source.ts";
import { postgresSource } from "../api/connector-config.ts";
import { emptySourceState } from "../pipeline/source-state.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";

export const never = new AbortController().signal;
let count = 0;

/** One life of a source over a database. */
interface Life extends AsyncDisposable {
  readonly source: Source;
  stop(reason: Error): void;
}

/** A database with a table, a slot that begins before anything was written to it, and a proxy before both. */
export async function begun(server: PostgresServer) {
  const name = `contract_${++count}`;
  await server.createDatabase(name);
  await server.query("create table t (id int primary key, v text)", name);
  const proxy = await TcpProxy.start(server.port);
  const live = async (): Promise<Life> => {
    const end = new AbortController();
    const config = postgresSource({ ...server.connection(name), port: proxy.port });
    const context = {
      signal: end.signal,
      owner: "contract",
      state: await emptySourceState(),
      events: { warning() {} },
      sinkFollowsShapes: false,
    };
    const source = new PostgresSource(config, name, 0, context, { ...streamPace, tableCheckMs: 100 });
    await source.tables();
    const dispose = async () => {
      end.abort(new Error("over"));
      await source[Symbol.asyncDispose]();
    };
    return { source, stop: (reason) => end.abort(reason), [Symbol.asyncDispose]: dispose };
  };
  const life = await live();
  await life.source.publish();
  const point = await life.source.createSlot(never);
  await point[Symbol.asyncDispose]();
  const checkpoint: Checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: 0n, log: point.log };
  const sql = <Row extends object>(text: string) => server.query<Row>(text, name);
  const slotAt = async () =>
    (
      await sql<{ at: string }>(
        `select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = '${name}'`,
      )
    )[0]?.at;
  return {
    name,
    life,
    source: life.source,
    checkpoint,
    proxy,
    live,
    sql,
    slotAt,
    connect: () => server.connect(name),
    logEnd: async () =>
      lsn(BigInt((await sql<{ at: string }>("select (pg_current_wal_lsn() - '0/0')::text as at"))[0]!.at)),
    sessions: async () =>
      (
        await sql(
          "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
        )
      ).length,
    async [Symbol.asyncDispose]() {
      await life[Symbol.asyncDispose]();
      await proxy[Symbol.asyncDispose]();
    },
  };
}

export interface Seen {
  readonly commitLsn: Lsn;
  readonly ordinal: number;
  readonly id: number;
}

/** The changes of a batch, by the first column of their new tuples. */
function changesOf(batch: ChangeBatch): readonly Seen[] {
  const view = Buffer.from(batch.arena.buffer, batch.arena.byteOffset);
  return Array.from({ length: batch.count }, (_, i) => {
    const start = batch.newStart[i]! + 2;
    const id = Number(view.toString("utf8", start + 4, start + 4 + view.readInt32BE(start)));
    return {
      commitLsn: lsn(batch.transactions.commitLsn[batch.transaction[i]!]!),
      ordinal: batch.ordinal[i]!,
      id,
    };
  });
}

/** So many changes, and where the stream stands behind them. */
export async function read(
  stream: ChangeStream,
  most: number,
): Promise<{ seen: readonly Seen[]; resumeLsn: Lsn }> {
  const seen: Seen[] = [];
  let resumeLsn = lsn(0n);
  while (seen.length < most) {
    const batch = await stream.next();
    seen.push(...changesOf(batch));
    resumeLsn = batch.resumeLsn;
  }
  return { seen, resumeLsn };
}

export async function textOf({ chunks }: TableRows): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(new Uint8Array(chunk));
  return Buffer.concat(parts).toString();
}

export const idsIn = (text: string) =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => Number(line.split("\t")[0]));

/** Three transactions, that overlap: the second is committed first. Returns ids in the order of commits. */
export async function overlap(at: Awaited<ReturnType<typeof begun>>): Promise<readonly number[]> {
  await using one = await at.connect();
  await using other = await at.connect();
  await one.query("begin; insert into t values (1), (2)");
  await other.query("begin; insert into t values (3); insert into t values (4), (5)");
  await one.query("insert into t values (6)");
  await other.query("commit");
  await at.sql("insert into t values (7)");
  await one.query("commit");
  return [3, 4, 5, 7, 1, 2, 6];
}
