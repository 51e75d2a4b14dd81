// Plays a random load on tables with a history while the service dies again and again, and tables are copied, and verifies what the histories tell.

import type { Client } from "pg";
import { type Verified, verifyHistories } from "../oracles/history-oracle.ts";
import { waitFor } from "../wait-for.ts";
import { HistoryLoad, playedTables } from "./history-load.ts";

export interface PlayedService {
  source<Row extends object>(sql: string): Promise<Row[]>;
  sink<Row extends object>(sql: string): Promise<Row[]>;
  /** A session at the source. */
  session(): Promise<Client & AsyncDisposable>;
  /** How it is, for whoever reads of a failure. */
  state(): Promise<unknown>;
  /** It dies, and is started again. */
  die(): Promise<void>;
  /** Copies the table again, in whatever way. Does not wait for it. */
  copy(table: string): void;
}

export interface PlayLength {
  /** How many times the tables are recorded. */
  readonly places: number;
  readonly deaths: number;
}

/** The tables are there, and the service streams them. */
export async function playHistories(
  service: PlayedService,
  random: () => number,
  { places, deaths }: PlayLength,
): Promise<Verified> {
  const load = new HistoryLoad(random);
  await untilBegun(service);
  await service.source("alter table two replica identity default");
  await using sessions = new AsyncDisposableStack();
  const session = async () => sessions.use(await service.session());
  const [recorder, alterer, ...writers] = [
    await session(),
    await session(),
    await session(),
    await session(),
  ];
  await recorder.query(
    "create table audit.beginning as select coalesce(max(seq), 0) as first from audit.change",
  );
  await load.record(recorder);
  let isOver = false;
  const numbers = new Map(playedTables.map(({ name }) => [name, new Map<string, number>()]));
  const writing = writers.map(async (writer) => {
    while (!isOver) {
      await load.change(writer);
      await Bun.sleep(random() * 10);
    }
  });
  // What the source did to a table while nobody looked is not known for sure, which a warning says: that is another play's.
  let altering: Promise<void> = Promise.resolve();
  const dying = (async () => {
    for (let death = 0; death < deaths && !isOver; death++) {
      await Bun.sleep(300 + random() * 900);
      await altering;
      if (death % 2 === 0) service.copy(playedTables[Math.floor(random() * playedTables.length)]!.name);
      if (death % 2 === 0) await Bun.sleep(random() * 200);
      await service.die();
    }
  })();
  const everyAlteration = Math.max(8, Math.floor(places / 40));
  try {
    for (let place = 0; place < places; place++) {
      await Bun.sleep(random() * 20);
      if (place % everyAlteration === everyAlteration - 1) {
        await altering;
        await load.alter(alterer);
        altering = untilFollowed(service);
      }
      await noteColumns(service, numbers);
      await load.record(recorder);
    }
    await altering;
    await dying;
  } finally {
    isOver = true;
    await Promise.all(writing);
  }
  await load.record(recorder);
  await untilEqual(service);
  return await verifyHistories(service.source, service.sink, load.recorded, numbers);
}

async function untilBegun({ sink }: PlayedService): Promise<void> {
  const isBegun = async () => {
    const rows = await sink("select from millrace.table_history where is_begun and is_reconciled").catch(
      () => [],
    );
    return rows.length === playedTables.length;
  };
  await waitFor("the histories to begin", isBegun, { timeoutMs: 60_000 });
}

async function untilFollowed({ source, sink, state }: PlayedService): Promise<void> {
  const sql = `select attrelid::regclass::text as table, attname, format_type(atttypid, null) as type from pg_attribute
    where attrelid::regclass in ('one', 'two') and attnum > 0 and not attisdropped order by 1, 2`;
  const isFollowed = async () => Bun.deepEquals(await source(sql), await sink(sql));
  await waitFor("the sink to follow the tables", isFollowed, { timeoutMs: 60_000 }).catch(async (error) => {
    // The state may have a BigInt, which JSON has no place for.
    const sides = Bun.inspect([await source(sql), await sink(sql), await state()]);
    throw new Error(`${error}: ${sides}`);
  });
}

/** What each column is called, or was before it was dropped: a history keeps the last name. */
async function noteColumns(
  { source }: PlayedService,
  numbers: ReadonlyMap<string, Map<string, number>>,
): Promise<void> {
  for (const [table, known] of numbers) {
    const rows = await source<{ name: string; number: number }>(
      `select attname as name, attnum as number from pg_attribute where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped`,
    );
    for (const { name, number } of rows) known.set(name, number);
  }
}

/** A copy may be ahead of the stream: the histories are complete once the last change is in them. */
async function untilEqual({ source, sink }: PlayedService): Promise<void> {
  await source(
    "insert into one (id, v) values (-1, 'the last'); insert into two (a, b, v) values (-1, 'k', 'the last')",
  );
  for (const { name } of playedTables) {
    const isThere = async () => (await sink(`select from ${name}_history where v = 'the last'`)).length > 0;
    await waitFor(`the last change of ${name}`, isThere, { timeoutMs: 60_000 });
    const sql = `select md5(coalesce(string_agg(v, ',' order by v), '')) as sum from ${name}`;
    const isSame = async () => Bun.deepEquals(await source(sql), await sink(sql));
    await waitFor(`${name} to be equal`, isSame, { timeoutMs: 60_000 });
  }
}
