// The service is killed again and again while a connector resumes after a lost slot, and the source is written to: afterwards the sink equals the
// source, and every table is proved.

import { expect, setDefaultTimeout, test } from "bun:test";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { builtStage } from "../../support/program/built-stage.ts";
import { waitFor } from "../../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

const rows = 2_000;
const slot = "millrace_m";
/** One that is large enough for the service to die amid its comparison, one that is copied whole, and one whose rows move. */
const tables = `${movingRows("m", rows)};
  create table large (id int primary key, n int not null, text text not null);
  insert into large select g, 0, md5(g::text) from generate_series(1, 150000) g;
  create table keyless (id int, text text); alter table keyless replica identity full;
  insert into keyless select g, 'k' from generate_series(1, 5000) g`;
const missed = (round: number) => `
  update m set n = -1, far = repeat('missed', 300) where id % 7 = ${round}; delete from m where id % 11 = ${round};
  update large set n = n + 1 where id % 100 = ${round}; delete from large where id % 97 = ${round};
  insert into large select 150000 * ${round + 1} + g, 0, 'new' from generate_series(1, 500) g;
  update large set id = -id where id % 89 = ${round}; delete from keyless where id % 50 = ${round}`;
/** A table without a key has further columns at the sink. */
const contents = [
  "select id, n, text, far from m",
  "select id, n, text from large",
  "select id, text from keyless",
]
  .map((sql) => `select count(*), md5(string_agg(t::text, ',' order by id)) from (${sql}) t`)
  .join(" union all ")
  // Servers may read the parts at once.
  .concat(" order by 1, 2");
const unproved = "select table_name from millrace.table_copy where is_unproved";

/** So often the slot is lost, and so often the service dies then. */
const rounds = 2;
const kills = Number(process.env.MILLRACE_KILLS ?? 5);

test(`kill -9, ${rounds} times ${kills}, amid Resume`, async () => {
  await using stage = await builtStage({ databases: ["a", "b"], source: tables });
  const { server, service, api } = stage;
  const connector = {
    source: {
      postgres: { connection: server.connection("a"), replication_type: { logical_replication: {} } },
    },
    sink: { postgres: { connection: server.connection("b") } },
  };
  await api.createConnector("m", connector);
  const isEqual = async () =>
    Bun.deepEquals(await server.query(contents, "b").catch(() => []), await server.query(contents, "a"));
  const wait = { timeoutMs: 60_000, intervalMs: 300 };
  await waitFor("the copies", isEqual, wait);
  const isStopped = async () => "shutdown" in (await api.connector("m")).status.state;
  const source = { sourceSession: () => server.connect("a") };
  let amid = 0;
  for (let round = 0; round < rounds; round++) {
    await api.command("m", "Stop");
    await waitFor("it to stop", isStopped, wait);
    await server.query(missed(round), "a");
    await server.query(`select pg_drop_replication_slot('${slot}')`, "a");
    {
      await using _moving = await moveRows(source, "m", rows, round + 1);
      for (let kill = 0; kill < kills; kill++) {
        // The command may die with the service, and is given again then. Of a run that has begun it is refused.
        void api.command("m", "Resume").catch(() => {});
        await Bun.sleep(Math.random() * 1_200);
        await service.kill();
        if ((await server.query(unproved, "b")).length > 0) amid++;
        // Every third start is itself interrupted at some moment; the others reach their work.
        if (kill % 3 === 2) service.spawn();
        else await service.launch();
      }
      await service.untilReady();
      await api.command("m", "Resume").catch(() => {});
    }
    const isProved = async () => (await server.query(unproved, "b")).length === 0 && (await isEqual());
    await waitFor("the sink to equal the source", isProved, wait);
    const isTold = async () => (await api.connector("m")).status.progress?.resume === undefined;
    await waitFor("the status to say so", isTold, wait);
  }
  expect(amid).toBeGreaterThan(0);
});
