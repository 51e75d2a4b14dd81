// A connection pooler in front of a server is named: behind it a session's settings and its locks are not its own.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { probePostgres } from "../../src/connection/postgres-probe.ts";
import { ValidationLog } from "../../src/connection/validation-log.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { findTest } from "../support/api/validation-events.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { startPooler } from "../support/servers/pooler.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const direct = "Connect to the server itself, not to a pooler.";
const dropped = `A connection pooler drops the settings that a session starts with. ${direct}`;

describe.each(["source", "sink"] as const)("at the %s", (side) => {
  async function probe(port: number) {
    const log = new ValidationLog();
    const connection = fullConnection({ ...server.connection(), port });
    await probePostgres(connection, side, AbortSignal.timeout(20_000), log, async () => {});
    return log.finish();
  }

  test("the validation warns of a pooler", async () => {
    await using pooler = await startPooler(server.port);
    const { status, message } = findTest(await probe(pooler.port), "ServerInfo");
    expect(status).toEqual({ Warn: {} });
    expect(message).toContain(direct);
    expect(findTest(await probe(server.port), "ServerInfo").status).toEqual({ Success: {} });
  });

  test("a pooler that drops the session's settings fails the validation, and ends a run before it begins", async () => {
    await using pooler = await startPooler(server.port, { isDropping: true });
    expect(findTest(await probe(pooler.port), "Connection").status).toEqual({ Failed: { reason: dropped } });
    const name = `pooled_${side}`;
    const connection = fullConnection({ ...server.connection(`${name}_${side}`), port: pooler.port });
    const options: RigOptions = { [side]: { connection } };
    await using rig = await PipelineRig.create(server, name, options);
    await rig.source("create table t (id int primary key); insert into t values (1)");
    rig.start();
    expect(await rig.ended()).toMatchObject({
      code: `${side}_unreachable`,
      retry: "transient",
      message: dropped,
    });
    const config = { connection: fullConnection(server.connection(`${name}_${side}`)) };
    if (side === "source") rig.reconfigure(config);
    else rig.reconfigureSink(config);
    rig.start();
    await rig.expectEqual();
    await rig.stop();
  });
});
