// A catalog that includes tables by name, as one does that was read from the source and sent back: a name that was never there is
// refused, and a table that goes later does not keep the others.

import { expect, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const included = (name: string) => ({
  name,
  action: "Include" as const,
  history_enabled: false,
  columns: [],
});

const table = (name: string) =>
  `create table ${name} (id int primary key, v text); insert into ${name} select i, 'v' from generate_series(1, 100) i`;

test("a table that goes while the connector streams, or while it is stopped, is told of, and the others go on", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const tables = ["a", "b", "c"].map(included);
  const schemas = [{ name: "public", action: "Include" as const, tables }];
  const catalog = { name: "db", default_action: "Exclude" as const, schemas };
  await using rig = await PipelineRig.create(server, "named", { source: { catalog } });
  await rig.source(`${table("a")}; ${table("b")}`);
  rig.start();
  expect(await rig.ended()).toMatchObject({ code: "table_unavailable" });
  await rig.source(table("c"));
  rig.start();
  await rig.untilRealtime();

  const warnings = () =>
    rig.phases.flatMap(({ health }) => (health.kind === "warning" ? [health.reason] : []));
  const isGoneTold = () =>
    warnings().some((reason) => reason.includes("public.b") && reason.includes("go on"));
  const arrives = async (id: number) => {
    await rig.source(`insert into a values (${id}, 'later')`);
    const isThere = async () => (await rig.sink(`select from a where id = ${id}`)).length === 1;
    await waitFor("the others' row", isThere);
  };
  await rig.source("drop table b");
  await waitFor("the warning", () => isGoneTold());
  await arrives(1000);

  await rig.source(`create table b (id int primary key, v text); insert into b values (7, 'new')`);
  await rig.expectEqual();
  await rig.source("insert into b values (8, 'more')");
  await rig.expectEqual();

  await rig.stop();
  rig.phases.length = 0;
  await rig.source("drop table b");
  rig.start();
  await rig.untilRealtime();
  await waitFor("the warning", () => isGoneTold());
  await arrives(1001);
  await rig.stop();
});

test("rounds of copies bring the others, and end with the name that is not there until it is", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const schemas = [{ name: "public", action: "Include" as const, tables: ["a", "b"].map(included) }];
  const catalog = { name: "db", default_action: "Exclude" as const, schemas };
  await using rig = await PipelineRig.create(server, "rounds", { source: { catalog }, work: "copies" });
  const round = async () => {
    rig.initialized = false;
    rig.start();
    return await rig.ended();
  };
  await rig.source(`${table("a")}; ${table("b")}`);
  expect(await round()).toBeNull();
  await rig.source("drop table b; insert into a values (1000, 'later')");
  const failure = (await round()) as MillraceError;
  expect([failure.code, failure.retry]).toEqual(["table_unavailable", "permanent"]);
  expect(failure.message).toContain("public.b");
  expect(await rig.sink("select v from a where id = 1000")).toEqual([{ v: "later" }]);
  expect(await rig.sink("select count(*)::int as n from b")).toEqual([{ n: 100 }]);

  await rig.source("create table b (id int primary key, v text); insert into b values (7, 'new')");
  rig.start();
  expect(await rig.ended()).toBeNull();
  await rig.expectEqual();
});
