// A copy that a constraint of the sink's table refuses as a whole says of which row, by its key.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query("create role weak login");
});
afterAll(() => server[Symbol.asyncDispose]());

const t = "create table t (id int primary key, u int)";
const many = "insert into t select i, i from generate_series(1, 100) i";
const ranges = "insert into t select i, int4range(i * 10, i * 10 + 5) from generate_series(1, 100) i";
const parents = "create table p (id int primary key); insert into p select generate_series(1, 99)";

/** What is refused, the source's table, the sink's, and the row's key. */
const cases: readonly (readonly [what: string, source: string, sink: string, key: number])[] = [
  [
    "a deferred unique constraint, of a copy into an empty table",
    `${t}; ${many}; insert into t values (0, 7)`,
    "create table t (id int primary key, u int unique deferrable initially deferred)",
    7,
  ],
  [
    "a deferred foreign key",
    `${t}; ${many}`,
    `${parents}; create table t (id int primary key, u int references p deferrable initially deferred)`,
    100,
  ],
  [
    "a foreign key, of a copy over other rows",
    `${t}; ${many}`,
    `${parents}; create table t (id int primary key, u int references p); insert into t values (5, 6)`,
    100,
  ],
  [
    "a unique index, by a row of somebody else's",
    `${t}; ${many}`,
    "create table t (id int primary key, u int, mine text); create unique index by_u on t (u) include (mine); insert into t values (5, 5), (777, 77)",
    77,
  ],
  [
    "a check",
    `${t}; ${many}`,
    'create table t (id int primary key, u int constraint "no ""50""" check (u <> 50)); insert into t values (5, 6)',
    50,
  ],
  [
    "an exclusion, deferred",
    `create table t (id int primary key, u int4range); ${ranges}; insert into t values (-1, int4range(71, 72))`,
    "create table t (id int primary key, u int4range, exclude using gist (u with &&) deferrable initially deferred)",
    7,
  ],
];

for (const [i, [what, source, sink, key]] of cases.entries()) {
  test(what, async () => {
    await using rig = await PipelineRig.create(server, `refused${i}`);
    await rig.source(source);
    await rig.sink(
      `grant create, temporary on database ${rig.sinkDatabase} to weak; grant create, usage on schema public to weak; set role weak; ${sink}`,
    );
    rig.sinkUser = "weak";
    rig.start();
    const text = String(await rig.ended());
    expect(text).toContain("Table public.t: The server refused a value");
    expect(text).toContain(` The row is (id)=(${key}).`);
    expect(text).not.toContain("int4range");
  });
}
