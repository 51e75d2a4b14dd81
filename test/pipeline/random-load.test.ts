// Random transactions, random deaths: the sink equals the source at the end. Prints its seed when it fails.

import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { withItsPlace } from "../support/loads/play-failure.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const tables = `
create table keyed (id int primary key, n int, big text);
alter table keyed alter big set storage external;
create table full_identity (a int, b text, primary key (b, a)); alter table full_identity replica identity full;
create table bag (x int, y text); alter table bag replica identity full;
create table by_index (id int not null, u text not null, v int);
create unique index by_index_u on by_index (u); alter table by_index replica identity using index by_index_u;
create table parts (id int primary key, v int) partition by range (id);
create table parts_low partition of parts for values from (minvalue) to (50);
create table parts_high partition of parts for values from (50) to (maxvalue)`;

const id = fc.integer({ min: 0, max: 99 });
const statement = fc.oneof(
  fc
    .tuple(id, fc.nat(9))
    .map(
      ([k, n]) => `insert into keyed values (${k}, ${n}, repeat('${n}', ${n * 900})) on conflict do nothing`,
    ),
  fc.tuple(id, id).map(([k, n]) => `update keyed set n = ${n} where id between ${k} and ${k + 5}`),
  fc
    .tuple(id, id)
    .map(
      ([k, n]) =>
        `update keyed set id = ${n} where id = ${k} and not exists (select from keyed where id = ${n})`,
    ),
  id.map((k) => `update keyed set big = repeat('b', 3000) where id = ${k}`),
  id.map((k) => `delete from keyed where id between ${k} and ${k + 3}`),
  fc
    .tuple(id, fc.constantFrom("p", "q", ""))
    .map(([k, b]) => `insert into full_identity values (${k}, '${b}') on conflict do nothing`),
  fc
    .tuple(id, id)
    .map(
      ([k, n]) =>
        `update full_identity set a = ${n} where a = ${k} and not exists (select from full_identity where a = ${n})`,
    ),
  id.map((k) => `delete from full_identity where a < ${k} and a > ${k - 10}`),
  fc.tuple(fc.nat(3), fc.constantFrom("'y'", "null")).map(([x, y]) => `insert into bag values (${x}, ${y})`),
  fc.nat(3).map((x) => `update bag set y = 'u' where ctid = (select min(ctid) from bag where x = ${x})`),
  fc.nat(3).map((x) => `delete from bag where ctid = (select min(ctid) from bag where x = ${x})`),
  id.map((k) => `insert into by_index values (${k}, 'u${k}', 0) on conflict do nothing`),
  fc
    .tuple(id, id)
    .map(
      ([k, n]) =>
        `update by_index set v = v + 1, u = 'u${n}' where u = 'u${k}' and not exists (select from by_index where u = 'u${n}')`,
    ),
  id.map((k) => `delete from by_index where u = 'u${k}'`),
  id.map((k) => `insert into parts values (${k}, 0) on conflict do nothing`),
  fc
    .tuple(id, id)
    .map(
      ([k, n]) =>
        `update parts set id = ${n}, v = v + 1 where id = ${k} and not exists (select from parts where id = ${n})`,
    ),
  fc.constantFrom(
    "truncate bag",
    "truncate keyed, by_index",
    "update keyed set n = n",
    "delete from parts where v > 1",
  ),
);
const transaction = fc
  .tuple(fc.array(statement, { minLength: 1, maxLength: 6 }), fc.boolean())
  .map(([statements, commits]) => `begin; ${statements.join("; ")}; ${commits ? "commit" : "rollback"}`);
const step = fc.oneof(
  { weight: 30, arbitrary: transaction.map((sql) => ({ sql })) },
  { weight: 2, arbitrary: fc.constant("crash" as const) },
  { weight: 1, arbitrary: fc.constant("stop" as const) },
  { weight: 1, arbitrary: fc.constant("settle" as const) },
  {
    weight: 2,
    arbitrary: fc.record({ task: fc.constantFrom("keyed", "by_index", "bag"), truncate: fc.boolean() }),
  },
  // Rows of the sink are made wrong by hand.
  { weight: 2, arbitrary: fc.constant("spoil" as const) },
);

let round = 0;

async function play(
  steps: readonly (string | { sql: string } | { task: string; truncate: boolean })[],
  forms: readonly ("binary" | "text")[],
  comesInProgress: boolean,
): Promise<void> {
  const maxBufferedRows = comesInProgress ? 2 : 0;
  await using pair = await PipelineRig.create(server, `r${++round}`, {
    forms,
    maxBufferedRows,
    parallelCopies: 5,
    tasksGoOn: true,
    // Each page by itself, as of a point of its own where one can be had.
    ...(round % 2 === 0 ? { copyPace: { dividedFromBytes: 1, rangeBytes: 1, pointHeldMs: 0 } } : {}),
  });
  if (comesInProgress) await pair.sendInProgress();
  await pair.source(`${tables}; insert into keyed select g, g, repeat('x', g * 100) from generate_series(0, 60) g;
    insert into bag select g % 4, null from generate_series(1, 20) g; insert into parts select g, 0 from generate_series(0, 99) g`);
  await using client = await server.connect(pair.sourceDatabase);
  pair.start();
  const tasks: Promise<unknown>[] = [];
  for (const each of steps) {
    if (typeof each === "object" && "task" in each) tasks.push(pair.snapshot(each.task, each.truncate));
    else if (typeof each === "object") await client.query(each.sql);
    else if (each === "spoil") await spoil(pair);
    else if (each === "settle") await (steps.includes("spoil") ? pair.untilRealtime() : pair.expectEqual());
    else {
      if (each === "crash") await pair.crash();
      else await pair.stop();
      pair.start();
    }
  }
  await Promise.all(tasks);
  if (steps.includes("spoil")) await mend(pair);
  await pair.expectEqual();
  await pair.stop();
}

/** As the service does: again, while a TRUNCATE is still on its way. */
async function mend(pair: PipelineRig): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const failure = await pair.snapshot("keyed", true);
    if (failure === null) return;
    expect(failure).toMatchObject({ code: "table_changed" });
    expect(attempt).toBeLessThan(5);
  }
}

/** Wrong values, and rows that the source does not have; where the table is there already. */
async function spoil(pair: PipelineRig): Promise<void> {
  await pair
    .sink(`update keyed set n = -1, big = 'wrong' where id % 3 = 1; insert into keyed select g, 0, '' from generate_series(1000, 1009) g
      on conflict do nothing`)
    .catch(() => {});
}

test(
  "the sink equals the source after any load and any number of deaths",
  async () => {
    const playing = fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 10, maxLength: 120 }),
        fc.constantFrom<readonly ("binary" | "text")[]>(["binary", "text"], ["text"]),
        fc.boolean(),
        play,
      ),
      { numRuns: Number(process.env.MILLRACE_FUZZ_RUNS ?? 8), endOnFailure: true },
    );
    await withItsPlace(playing);
  },
  { timeout: Number(process.env.MILLRACE_FUZZ_MINUTES ?? 5) * 60_000 },
);
