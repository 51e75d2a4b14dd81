// Two thousand tables in one connector, and a hundred connectors in one process: `bun run test:size`.

import { expect, test } from "bun:test";
import { readUsage } from "../../bench/measure/process-usage.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { type SinkKind, SizeStage } from "../support/program/size-stage.ts";

const tables = 2000;
const connectors = 100;
const poll = { timeoutMs: 300_000, intervalMs: 100 };

const each = (count: number, sql: (i: number) => string) => Array.from({ length: count }, (_, i) => sql(i));

/** A hundred at a time: a transaction holds a lock on each table. */
async function writeAll(stage: SizeStage, statements: readonly string[]): Promise<void> {
  for (let at = 0; at < statements.length; at += 100)
    await stage.write(statements.slice(at, at + 100).join("; "));
}

test.each(["postgres", "webhook"] as const)(
  "2,000 tables to a %s sink",
  async (kind: SinkKind) => {
    await using stage = await SizeStage.start();
    const make = (i: number) =>
      `create table t${i} (id int primary key, v text, n int[], at timestamptz default now()); insert into t${i} (id, v) values (1, 'x'), (2, 'y')`;
    await writeAll(stage, each(tables, make));
    let connections = 0;
    const counting = setInterval(async () => {
      const sql = "select count(*)::int4 as n from pg_stat_activity where application_name like 'millrace%'";
      const [row] = await stage.write(sql).catch(() => []);
      connections = Math.max(connections, (row as { n: number } | undefined)?.n ?? 0);
    }, 200);
    await stage.expectSmall(`copy of ${tables} tables, ${kind}`, async () => {
      await stage.create("c", kind);
      await stage.untilStreaming("c");
    });
    clearInterval(counting);
    expect(connections).toBeLessThan(12);
    await stage.expectSmall(`changes of ${tables} tables, ${kind}`, async () => {
      await writeAll(
        stage,
        each(tables, (i) => `update t${i} set v = v || 'z'; insert into t${i} (id) values (3)`),
      );
      await stage.untilCarried(kind);
    });
    await stage.expectSmall(`stop and start with ${tables} tables, ${kind}`, async () => {
      await stage.api.command("c", "Stop");
      await writeAll(
        stage,
        each(tables, (i) => `delete from t${i} where id = 1`),
      );
      await stage.api.command("c", "Start");
      await stage.untilCarried(kind);
    });
    if (kind === "webhook") return;
    const rows = each(tables, (i) => `select ${i} as t, id, v from t${i}`).join(" union all ");
    const digest = `select count(*)::text as rows, md5(string_agg(md5(row(t, id, v)::text), '' order by t, id)) as md5 from (${rows}) r`;
    expect(await stage.atSink(digest)).toEqual(await stage.write(digest));
  },
  900_000,
);

test("100 connectors", async () => {
  await using stage = await SizeStage.start();
  await stage.write(each(connectors, (i) => `create table k${i} (id int primary key, v text)`).join("; "));
  const ids = each(connectors, (i) => `c${i}`);
  const kindOf = (i: number): SinkKind => (i % 2 === 0 ? "postgres" : "webhook");
  const cpu = () => readUsage(stage.service.pid ?? 0)?.cpuSeconds ?? 0;
  const insert = (id: number) => each(connectors, (i) => `insert into k${i} values (${id}, 'v')`).join("; ");
  const atSinks = (id: number) =>
    pollUntil(
      "every Postgres sink has it",
      async () => {
        const missing = each(connectors, (i) =>
          kindOf(i) === "postgres" ? `select count(*) as n from k${i} where id = ${id}` : "",
        );
        const sql = `select sum(n)::int4 as n from (${missing.filter(Boolean).join(" union all ")}) c`;
        return (await stage.atSink<{ n: number }>(sql))[0]?.n === connectors / 2;
      },
      poll,
    );
  await stage.peakWhile("create 100 connectors", async () => {
    for (const [i, id] of ids.entries()) await stage.create(id, kindOf(i), [`k${i}`]);
    await stage.untilStreaming(...ids);
  });
  const before = cpu();
  const idle = await stage.peakWhile("idle for 20 s", () => Bun.sleep(20_000));
  console.log(`idle: ${((cpu() - before) * 5).toFixed(0)} % of one core`);
  expect(idle.resident).toBeLessThan(1000 * 1024 * 1024);
  await stage.peakWhile("a row each, 10 times", async () => {
    for (let id = 1; id <= 10; id++) {
      await stage.write(insert(id));
      await Bun.sleep(1000);
    }
    await atSinks(10);
  });
  const startedMs = performance.now();
  expect(await stage.service.stop()).toEqual({ code: 0, signal: null });
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  await stage.write(insert(11));
  await stage.service.launch();
  await stage.peakWhile("start again", async () => {
    await stage.untilStreaming(...ids);
    await atSinks(11);
  });
}, 900_000);
