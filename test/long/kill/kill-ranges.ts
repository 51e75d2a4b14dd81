// A large table's copy goes on where it was when the service was killed, and nothing is left of one whose connector is deleted.

import { expect, setDefaultTimeout, test } from "bun:test";
import { builtStage } from "../../support/program/built-stage.ts";
import { waitFor } from "../../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

/** 250 MB, most of it out of line. */
const table = `
  create table m (id int primary key, n int not null, far text not null);
  alter table m alter far set storage external;
  insert into m select g, 0, repeat(chr(97 + g % 26), 24000) from generate_series(1, 10000) g`;
const rangesSql = "select first_page::int4 as page, point_lsn::text as point from millrace.copied_range";
const sideTables = "select from pg_class where relname like 'copy\\_%\\_%' and relkind = 'r'";

test("kill -9 amid a table's ranges, and a deletion", async () => {
  await using stage = await builtStage({ databases: ["a", "b"], source: table });
  const { server, service, api } = stage;
  const connector = {
    source: {
      postgres: {
        connection: { ...server.connection("a"), max_pool_size: 4 },
        replication_type: { logical_replication: {} },
      },
    },
    sink: { postgres: { connection: server.connection("b") } },
  };
  await api.createConnector("m", connector);
  const ranges = () => server.query<{ page: number; point: string }>(rangesSql, "b").catch(() => []);
  await waitFor("a range", async () => (await ranges()).length > 0, { timeoutMs: 30_000, intervalMs: 5 });
  await service.kill();
  const done = await ranges();
  await server.query("update m set n = 1 where id % 100 = 0; delete from m where id % 100 = 1", "a");
  await service.launch();
  const isMore = async () => (await ranges()).length > done.length;
  await waitFor("another range", isMore, { timeoutMs: 30_000, intervalMs: 5 });
  expect(await ranges()).toEqual(expect.arrayContaining([...done]));
  const rows = "select count(*), sum(n), md5(string_agg(id || md5(far), '' order by id)) from m";
  const wanted = await server.query(rows, "a");
  const isSame = async () => Bun.deepEquals(await server.query(rows, "b").catch(() => []), wanted);
  await waitFor("the sink to equal the source", isSame, { timeoutMs: 60_000, intervalMs: 200 });
  expect(await server.query(sideTables, "b")).toEqual([]);

  await api.command("m", "ReIntialize");
  await waitFor("a range", async () => (await ranges()).length > 0, { timeoutMs: 30_000, intervalMs: 5 });
  await api.command("m", "Delete");
  const isGone = async () =>
    (await ranges()).length === 0 && (await server.query(sideTables, "b")).length === 0;
  await waitFor("the side table to go", isGone, { timeoutMs: 30_000 });
});
