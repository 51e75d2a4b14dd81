// `bun run test:long`: the service is killed at each tenth of a large table's copy, while the table is written to: of its first copy before the
// stream begins, and of one beside it. What was copied is not copied again, and the sink equals the source.

import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { compiledBinary } from "../../support/program/compiled-binary.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

/** 1.3 GB, nearly all of it out of line: about 20 ranges of 64 MB. */
const rows = 40_000;
const table = `
  create table m (id int primary key, n int not null, far text not null);
  alter table m alter far set storage external;
  insert into m select g, 0, repeat(chr(97 + g % 26), 32000) from generate_series(1, ${rows}) g`;
/** A connector with seven connections at the source copies two ranges side by side. */
const poolSize = 7;
const sideBySide = 2;

const rangesSql =
  "select first_page::int4 as page, next_page::int4 as next, point_lsn::text as point, row_count::int4 as rows from millrace.copied_range order by 1";

/** No range is there before the gate is open for it: the last tenths would be too fast to be told apart. */
const gateSql = `
  create table public.gate as select 0 as rows;
  create function public.wait() returns trigger language plpgsql as $$ begin
    while (select sum(row_count) from millrace.copied_range) >= (select rows from public.gate) loop
      perform pg_sleep(0.01);
    end loop;
    return new;
  end $$;
  create trigger wait before insert on millrace.copied_range for each row execute function public.wait();
  alter table millrace.copied_range enable always trigger wait`;

interface Range {
  readonly page: number;
  readonly next: number | null;
  readonly point: string;
  readonly rows: number;
}

/** Changes rows all over the table, and makes and removes some. Stopped and counted when it is disposed of. */
async function writing(
  server: PostgresServer,
): Promise<{ readonly changes: () => number } & AsyncDisposable> {
  const client = await server.connect("a");
  // What reads the table's pages is the copy alone.
  await client.query("set enable_seqscan = off");
  let changes = 0;
  let isOver = false;
  const work = (async () => {
    for (let round = 1; !isOver; round++) {
      const place = (round * 7919) % rows;
      const { rowCount } = await client.query(
        `update m set n = n + 1, far = case when id % 3 = 0 then 'short' else far end where id between ${place} and ${place + 4}`,
      );
      await client.query(`insert into m values (${rows + round}, 0, 'new')`);
      // Few of the first rows: tenths are counted by them.
      const gone = round % 20 === 0 && round < 10_000 ? (round * 104_729) % rows : rows + round - 5;
      await client.query(`delete from m where id = ${gone}`);
      changes += (rowCount ?? 0) + 2;
      await Bun.sleep(5);
    }
  })();
  return {
    changes: () => changes,
    [Symbol.asyncDispose]: async () => {
      isOver = true;
      await work;
      await client.end();
    },
  };
}

/** Rows that were read by going through the table's pages. */
async function rowsRead(server: PostgresServer): Promise<number> {
  const sql = "select seq_tup_read::float8 as rows from pg_stat_user_tables where relname = 'm'";
  const [row] = await server.query<{ rows: number }>(sql, "a");
  return row?.rows ?? 0;
}

test.each([
  ["before the stream begins", false],
  ["beside the stream", true],
] as const)("kill -9 at each tenth of a copy under write load, %s", async (_, isBeside) => {
  await using stack = new AsyncDisposableStack();
  const settings = { fsync: "off", max_wal_size: "8GB" };
  const [command, server] = await Promise.all([compiledBinary(), PostgresServer.start({ settings })]);
  stack.use(server);
  for (const name of ["a", "b"]) await server.createDatabase(name);
  if (!isBeside) await server.query(table, "a");
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-tenths-"));
  stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory }));
  const source = {
    connection: { ...server.connection("a"), max_pool_size: poolSize },
    replication_type: { logical_replication: {} },
  };
  const ranges = () => server.query<Range>(rangesSql, "b").catch(() => []);
  const isStreaming = async () => {
    const streams = "select from pg_replication_slots where active and not temporary";
    return (await server.query(streams)).length > 0;
  };
  const begin = async () => {
    await new ApiClient(service.url).createConnector("m", {
      source: { postgres: source },
      sink: { postgres: { connection: server.connection("b") } },
    });
    const isBegun = () => server.query("select from millrace.copied_range limit 0", "b").then(() => true);
    await waitFor("the sink to be there", isBegun, { intervalMs: 5 });
    await server.query(gateSql, "b");
  };
  if (isBeside) {
    await begin();
    await waitFor("the stream", isStreaming);
    await server.query(table, "a");
  }
  let largest = 0;
  let changes = 0;
  {
    await using load = await writing(server);
    if (!isBeside) await begin();
    let known: readonly Range[] = [];
    for (let tenth = 1; tenth <= 9; tenth++) {
      const until = (rows * tenth) / 10;
      await server.query(`update gate set rows = ${until}`, "b");
      const isThere = async () => (await ranges()).reduce((sum, range) => sum + range.rows, 0) >= until;
      await waitFor(`${tenth} tenths`, isThere, { timeoutMs: 120_000, intervalMs: 5 });
      await service.kill();
      const there = await ranges();
      // None has been made anew.
      expect(there).toEqual(expect.arrayContaining([...known]));
      known = there;
      largest = Math.max(largest, ...there.map((range) => range.rows));
      service.spawn();
    }
    await server.query(`update gate set rows = ${2 * rows}`, "b");
    await service.untilReady();
    const isThere = async () => (await isStreaming()) && (await ranges()).length === 0;
    await waitFor("the stream", isThere, { timeoutMs: 180_000, intervalMs: 50 });
    changes = load.changes();
  }
  // A session that was killed tells of what it has read when it has ended.
  const read = await rowsRead(server);
  expect(read).toBeGreaterThan(rows / 2);
  expect(read).toBeLessThanOrEqual(rows + changes + 9 * sideBySide * largest);
  const all = "select count(*), sum(n), md5(string_agg(id || md5(far), '' order by id)) from m";
  const wanted = await server.query(all, "a");
  const isSame = async () => Bun.deepEquals(await server.query(all, "b").catch(() => []), wanted);
  await waitFor("the sink to equal the source", isSame, { timeoutMs: 120_000, intervalMs: 500 });
  const left =
    "select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'";
  await waitFor("nothing to be left", async () => (await server.query(left, "b")).length === 0);
});
