// Tables that the connector selects and the user's publication does not have: the warning says how to end it, and what it says does end it.

import { expect, test } from "bun:test";
import type { Catalog, CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import { completeSource } from "../../../../src/connector/request/complete-connector.ts";
import { unpublishedWarning } from "../../../../src/source/postgres/publication/unpublished-wording.ts";
import { logicalReplication } from "../../../support/api/connector-config.ts";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

const replication = { replication_type: { logical_replication: logicalReplication("shop") } };
const warningOf = (rig: PipelineRig) => {
  const health = rig.phases.at(-1)?.health;
  return health?.kind === "warning" ? health.reason : null;
};

function catalogOf(catalog: CatalogRequest): Catalog {
  const connection = { host: "h", user: "u", database: "x" };
  const { postgres } = completeSource({ postgres: { connection, catalog, ...replication } });
  if (!postgres) throw new Error("the source has no form");
  return postgres.catalog;
}

const warned = async (rig: PipelineRig): Promise<string> => {
  await waitFor("the warning", () => warningOf(rig) !== null);
  return warningOf(rig) ?? "";
};

test("each of the two ways that the warning names ends it", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const tables = `create table t (id int primary key); create table "Odd u" (id int primary key); create publication shop for table t`;
  await using rig = await PipelineRig.create(server, "unpublished", { source: replication });
  await rig.source(tables);
  rig.start();
  const warning = await warned(rig);
  expect(warning).toStartWith(`Not in publication shop, and so not carried: public."Odd u".`);
  await rig.stop();

  const [json = ""] = warning.match(/\{"schemas".*\}/) ?? [];
  const source = { ...replication, catalog: catalogOf(JSON.parse(json)) };
  await using excluding = await PipelineRig.create(server, "excluding", { source });
  await excluding.source(tables);
  excluding.start();
  await waitFor("the stream", () => excluding.phases.at(-1)?.phase.name === "realtime");
  await excluding.stop();
  expect(excluding.phases.filter(({ health }) => health.kind === "warning")).toEqual([]);

  const [sql = ""] = warning.match(/ALTER PUBLICATION [^;]*;/) ?? [];
  await rig.source(sql);
  rig.start();
  await rig.expectEqual();
  await rig.stop();
  expect(warningOf(rig)).toBeNull();
}, 60_000);

test("many tables are not spelled out", () => {
  const tables = Array.from({ length: 30 }, (_, i) => ({ schema: "public", name: `t${i}` }));
  const warning = unpublishedWarning("shop", tables);
  expect(warning).toContain("public.t9 and 20 more");
  expect(warning).toContain("ADD TABLE …;");
  expect(warning).toContain('"default_action": "Exclude"');
  expect(warning.length).toBeLessThan(700);
});
