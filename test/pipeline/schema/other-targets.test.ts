// A connector whose tables get other names at the sink while it is stopped (target_schema, identifier_naming): the tables there are
// others, whatever they hold, and what they have missed is copied.

import { expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

test("a table is copied to where it is written from now on, there and back", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const options: { -readonly [Key in keyof RigOptions]: RigOptions[Key] } = {};
  await using rig = await PipelineRig.create(server, "targets", options);
  await rig.source(
    "create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 50) i",
  );
  // Somebody has made it beforehand, and put a row into it.
  await rig.sink(
    "create schema other; create table other.t (id int primary key, v text); insert into other.t values (-1, 'mine')",
  );
  const isSame = async (target: string, where = "true") => {
    const expected = await rig.source("select t::text from t order by id");
    const rows = () => rig.sink(`select t::text from ${target} t where ${where} order by id`);
    await waitFor(`${target} to be the same`, async () => Bun.deepEquals(await rows(), expected));
  };
  const goOn = async (copies: number) => {
    const before = rig.copies.length;
    rig.start();
    await rig.untilRealtime();
    await rig.source(
      "insert into t (id, v) select coalesce(max(id), 0) + 1, 'new' from t; update t set v = 'changed' where id = 30",
    );
    expect(rig.copies.length - before).toBe(copies);
  };
  await goOn(1);
  await isSame("public.t");

  await rig.stop();
  await rig.source("delete from t where id = 1");
  options.sink = { target_schema: "other" };
  await goOn(1);
  await isSame("other.t", "id <> -1");
  expect(await rig.sink("select v from other.t where id = -1")).toEqual([{ v: "mine" }]);
  await rig.source(
    "delete from t where id = 2; alter table t add column more int; update t set more = 1 where id = 3",
  );
  await isSame("other.t", "id <> -1");

  await rig.stop();
  options.sink = {};
  await rig.source("delete from t where id = 4");
  await goOn(1);
  await isSame("public.t");

  await rig.stop();
  options.naming = {
    FivetranNaming: { schema_prefix: "Pre", column_conflict: "Fail", table_conflict: "Fail" },
  };
  await goOn(1);
  await isSame("pre_public.t");
  await rig.source(
    "alter table t rename to renamed; insert into renamed (id) values (-5); alter table renamed rename to t",
  );
  await isSame("pre_public.t");
  await rig.stop();
  await goOn(0);
  await isSame("pre_public.t");
  await rig.stop();
});
