// A gigabyte of another database's log, at the pace and with the settings of production: `bun run test:long`.

import { expect, test } from "bun:test";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { keptBytes, writeElsewhere } from "../support/servers/foreign-log.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

test("1 GB of another database's log is let go within 90 s", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off", max_wal_size: "256MB" } });
  await server.createDatabase("elsewhere");
  await using rig = await PipelineRig.create(server, "idle");
  await rig.source("create table t (id int primary key); insert into t values (1)");
  rig.start();
  await rig.expectEqual();
  await writeElsewhere(server, "elsewhere", "noise", 1024);
  const isReleased = async () => (await keptBytes(server, rig.slot)) < 20 * 1024 * 1024;
  await waitFor("the slot follows", isReleased, { timeoutMs: 90_000, intervalMs: 1_000 });
  await server.query("checkpoint");
  const [log] = await server.query<{ bytes: string }>("select sum(size)::text as bytes from pg_ls_waldir()");
  expect(Number(log!.bytes)).toBeLessThan(400 * 1024 * 1024);
  await rig.source("insert into t values (2)");
  await rig.expectEqual();
  await rig.stop();
}, 300_000);
