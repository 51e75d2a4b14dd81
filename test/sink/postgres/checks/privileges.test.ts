// A role that may do nothing at the sink is told what it lacks, step by step, with the SQL; with that alone its connector runs.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Runs the SQL of each refusal as the superuser, until `isDone`. Returns what was run. */
async function untilItStreams(pair: PipelineRig, isDone: () => Promise<boolean>): Promise<readonly string[]> {
  const run: string[] = [];
  while (true) {
    pair.start();
    const ended = pair.ended();
    let isOver = false;
    void ended.finally(() => (isOver = true));
    // Tables that come later are copied beside the stream: what is refused of them is told behind its beginning.
    const done = waitFor("it is done, or refused", async () => isOver || (await isDone()));
    const refusal = await Promise.race([done.then(() => (isOver ? ended : null)), ended]);
    if (refusal === null) return run;
    expect(refusal).toMatchObject({ code: "sink_permission_denied" });
    const [, sql = ""] = /Run: (.+)$/s.exec(String(refusal)) ?? [];
    // Not the same again.
    expect(run).not.toContain(sql);
    run.push(sql);
    await pair.sink(sql);
  }
}

test("step by step", async () => {
  await using pair = await PipelineRig.create(server, "steps", { sink: { target_schema: "the closed" } });
  // By somebody who may do all.
  await pair.source("create table s (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  await server.query('create role "the guest" login');
  await server.query(
    `revoke all on database ${pair.sinkDatabase} from public; grant connect on database ${pair.sinkDatabase} to public`,
  );
  await pair.sink(`create table "the closed".t (id int primary key); create table "the closed".u (id int primary key);
    alter table "the closed".u enable row level security`);
  await pair.source(`create table t (id int primary key, v text); insert into t values (1, 'a');
    create table u (id int primary key); insert into u values (1)`);
  pair.sinkUser = "the guest";
  const rows =
    'select (select count(*) from "the closed".t)::int4 + (select count(*) from "the closed".u)::int4 as count';
  const areCopied = async () => (await pair.sink<{ count: number }>(rows))[0]?.count === 2;
  // Tables are copied side by side.
  expect((await untilItStreams(pair, areCopied)).toSorted()).toEqual([
    'ALTER ROLE "the guest" BYPASSRLS;',
    'ALTER TABLE "the closed"."t" OWNER TO "the guest";',
    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA millrace TO "the guest";',
    'GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON "the closed"."u" TO "the guest";',
    'GRANT USAGE, CREATE ON SCHEMA "millrace" TO "the guest";',
    'GRANT USAGE, CREATE ON SCHEMA "the closed" TO "the guest";',
  ]);
  await pair.stop();
});
