// Partitions that a publication has by their root: what is written to one while it is detached, nothing in the stream shows.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { logicalReplication } from "../../../support/api/connector-config.ts";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const named = { source: { replication_type: { logical_replication: logicalReplication("shop") } } };

let count = 0;
const streaming = (publication: string, leafSchema = "public") =>
  PipelineRig.streaming(
    server,
    `det${++count}`,
    {
      source: `create schema o;
        create table r (id int, p int, v text, primary key (id, p)) partition by list (p);
        create table ${leafSchema}.r1 partition of r for values in (1);
        create table ${leafSchema}.rest partition of r default partition by list (p);
        create table ${leafSchema}.r2 partition of ${leafSchema}.rest for values in (2);
        insert into r values (1, 1, 'a'), (2, 2, 'b'); create publication shop ${publication}`,
    },
    named,
  );

const swapped = (leaf: string, under: string, as: string) =>
  `begin; alter table ${under} detach partition ${leaf}; update ${leaf} set v = 'c'; alter table ${under} attach partition ${leaf} ${as}; commit`;
const ofLeaf = swapped("r1", "r", "for values in (1)");
const ofMiddle = swapped("rest", "r", "default");
const copiesOf = (rig: PipelineRig, table: string) =>
  rig.copies.filter((copy) => copy.table === table).length;

test.each([
  ["detached", "r1", "r2", ofLeaf],
  ["below a table that was detached", "r2", "r1", ofMiddle],
])(
  "a partition %s for a while, while the connector runs or is stopped, is copied again",
  async (_, leaf, other, swap) => {
    await using rig = await streaming("for table r");
    await rig.source(swap);
    await rig.expectEqual();
    expect(rig.warnings.at(-1)).toContain(`Somebody detached public.${leaf} `);
    await rig.stop();
    await rig.source(swap.replace("'c'", "'d'"));
    rig.start();
    await rig.expectEqual();
    await rig.stop();
    expect(copiesOf(rig, leaf)).toBe(3);
    expect(copiesOf(rig, other)).toBe(1);
  },
);

test("a partition that the publication lists by itself is sent while it is detached, and one that stays attached is not copied again", async () => {
  await using rig = await streaming("for table r, r1");
  await rig.source(ofLeaf);
  await rig.source("begin; alter table r detach partition rest; rollback; update r set v = 'd'");
  await rig.expectEqual();
  await rig.stop();
  rig.start();
  await rig.expectEqual();
  await rig.stop();
  expect(rig.copies.map(({ table }) => table).sort()).toEqual(["r1", "r2"]);
  expect(rig.warnings).toEqual([]);
});

test.each([
  ["is detached", swapped("o.r1", "r", "for values in (1)"), "Somebody detached o.r1 "],
  [
    "is out of it with its root",
    "alter publication shop drop tables in schema public; update r set v = 'c'; alter publication shop add tables in schema public",
    "Somebody took o.r1, o.r2 out",
  ],
  [
    "is narrowed with it",
    "alter publication shop set (publish = 'insert'); update r set v = 'c'; alter publication shop set (publish = 'insert, update, delete')",
    "was altered, or may have been: o.r1, o.r2 copied again",
  ],
  [
    "has a root that leaves it",
    "alter table r set schema o; update o.r set v = 'c'; alter table o.r set schema public",
    "Somebody took o.r1, o.r2 out",
  ],
])(
  "a partition of a published schema's table, itself in another schema, that %s for a while is copied again",
  async (_, sql, warning) => {
    await using rig = await streaming("for tables in schema public", "o");
    await rig.stop();
    await rig.source(sql);
    rig.start();
    await rig.expectEqual();
    expect(rig.warnings.join()).toContain(warning);
    await rig.stop();
  },
);
