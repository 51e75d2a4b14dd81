// Tables that the service's own publications cannot take in, as the connector's role does not own them: the others go on.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { fullConnection } from "../../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query("create role maker login replication");
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
/** A connector whose role owns `t` and `u`, and streams them. `sql` runs as the administrator, as the tests do. */
async function streaming(sql = "", options: RigOptions = {}): Promise<PipelineRig> {
  const name = `own${++count}`;
  const connection = fullConnection(server.connection(`${name}_source`), { user: "maker" });
  const rig = await PipelineRig.create(server, name, { source: { connection }, ...options });
  await rig.source(`grant create on database "${rig.sourceDatabase}" to maker;
    create table t (id int primary key, v text); create table u (id int primary key, v text);
    alter table t owner to maker; alter table u owner to maker; insert into t values (1, 'a'); insert into u values (1, 'a'); ${sql}`);
  rig.start();
  await rig.expectEqual();
  return rig;
}

const warningNow = (rig: PipelineRig) => {
  const health = rig.phases.at(-1)?.health;
  return health?.kind === "warning" ? health.reason : null;
};
const warned = (rig: PipelineRig) => waitFor("the warning", () => warningNow(rig));
const isUnwarned = (rig: PipelineRig) => waitFor("no warning", () => warningNow(rig) === null);
const [othersPattern, usagePattern] = [/ALTER TABLE .*? OWNER TO maker;/, /GRANT USAGE .*? TO maker;/];
const isAtSink = async (rig: PipelineRig, table: string, id: number) =>
  await waitFor(`row ${id} of ${table}`, async () => {
    const rows = await rig.sink(`select from ${table} where id = ${id}`).catch(() => []);
    return rows.length === 1;
  });

test("a table of another owner is left out with a warning, also after a restart; once the role owns it, it is copied", async () => {
  await using rig = await streaming();
  await rig.source("create table others (id int primary key, v text); insert into others values (1, 'a')");
  const warning = await warned(rig);
  expect(warning).toContain("not carried: public.others.");
  expect(warning).toContain(`{"name": "others", "action": "Exclude"}`);
  const reason = "The connector's role may not publish it.";
  await waitFor("its state", () => rig.table("others")?.reason === reason);
  await rig.source(
    "insert into t values (2, 'b'); create table later (id int primary key, v text); alter table later owner to maker",
  );
  await isAtSink(rig, "t", 2);
  await rig.stop();
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into later values (3, 'c'); insert into others values (3, 'c')");
  await isAtSink(rig, "later", 3);
  expect(rig.copies.map(({ table }) => table)).not.toContain("others");
  const [sql = ""] = (await warned(rig)).match(othersPattern) ?? [];
  await rig.source(`${sql} insert into others values (4, 'd')`);
  await rig.expectEqual();
  await isUnwarned(rig);
  await rig.stop();
});

test("to be a member of the owner is enough, and a task runs beside a table that is left out", async () => {
  await using rig = await streaming();
  await rig.source(
    "create role team; create table others (id int primary key, v text); alter table others owner to team",
  );
  await warned(rig);
  expect(await rig.snapshot("t", false)).toBeNull();
  await rig.source("grant team to maker; insert into others values (1, 'a')");
  await rig.expectEqual();
  await isUnwarned(rig);
  await rig.stop();
});

test("a published table that loses its owner is carried on; left out when it had to be published anew, and copied when it is owned again", async () => {
  await using rig = await streaming();
  await rig.source(
    "alter table u owner to postgres; create table later (id int primary key); alter table later owner to maker",
  );
  await rig.source("insert into u values (2, 'b'); insert into later values (2)");
  await rig.expectEqual();
  await rig.stop();
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into u values (3, 'c')");
  await rig.expectEqual();
  expect(rig.warnings).toEqual([]);
  // It has to go to the publication of inserts.
  await rig.source("alter table u drop constraint u_pkey");
  expect(await warned(rig)).toContain("not carried: public.u.");
  await waitFor("the application to be allowed to", () =>
    rig.source("update u set v = 'd'").catch(() => null),
  );
  await rig.source("insert into t values (3, 'c')");
  await isAtSink(rig, "t", 3);
  await rig.source("alter table u owner to maker");
  await rig.expectEqual();
  await rig.stop();
});

test("a table in a schema that the role may not use is left out with a warning, and what the warning says ends it", async () => {
  await using rig = await streaming();
  await rig.source(
    "create schema o; create table o.w (id int primary key); alter table o.w owner to maker; insert into o.w values (1)",
  );
  const [sql = ""] = (await warned(rig)).match(usagePattern) ?? [];
  await rig.source("insert into t values (2, 'b')");
  await isAtSink(rig, "t", 2);
  await rig.source(sql);
  await rig.expectEqual();
  await isUnwarned(rig);
  await rig.stop();
});

test("a table that the role owns and may not read is set aside, and the others go on", async () => {
  await using rig = await streaming("", { retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 } });
  await rig.source(
    "create table hidden (id int primary key); alter table hidden owner to maker; revoke select on hidden from maker; insert into t values (2, 'b')",
  );
  await isAtSink(rig, "t", 2);
  const reason = await waitFor("the table that it may not read", () => rig.setAside[0]?.reason);
  const [sql = ""] = /GRANT USAGE .*;/.exec(reason) ?? [];
  await rig.source(sql);
  await rig.expectEqual();
  await rig.stop();
});
