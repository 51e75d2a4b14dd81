import { expect, test } from "bun:test";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { fullConnection } from "../support/connector-config.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";

test("a sink that falls silent in the middle of a write is given up, and gone on with when it is back", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using proxy = await TcpProxy.start(server.port);
  const options: RigOptions = {
    sink: { connection: fullConnection({ ...server.connection("silent_sink"), port: proxy.port }) },
  };
  await using pair = await PipelineRig.create(server, "silent", options);
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1)");
  await pair.expectEqual();
  proxy.stall();
  await pair.source("insert into t values (2)");
  expect(await pair.ended()).toMatchObject({ code: "sink_connection_lost", retry: "transient" });
  proxy.resume();
  pair.start();
  await pair.expectEqual();
  await pair.stop();
}, 90_000);
