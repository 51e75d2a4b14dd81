// A table that was rewritten since the catalog was read. Where the user owns the publication, that shows in nothing but its files.

import { expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

test("is compared in another attempt", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const source =
    "create table t (id int primary key, v text); insert into t select g, 'v' from generate_series(1, 9) g; create publication mine for table t";
  await using rig = await PipelineRig.streaming(
    server,
    "rewritten",
    { source },
    { source: { replication_type: { logical_replication: logicalReplication("mine") } } },
  );
  const equal = { rows: 9, missing: 0, extra: 0, changed: 0 };
  expect(await rig.verify("t")).toMatchObject(equal);
  await rig.source("vacuum full t");
  expect(await rig.verify("t")).toMatchObject(equal);
  await rig.stop();
});
