// Runs of one connector that meet at the sink: what an earlier one left behind is ended, nobody else is.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { escapeLiteral } from "pg";
import {
  lockConnector,
  lockSpace,
  sinkSessionName,
} from "../../../../src/sink/postgres/bookkeeping/connector-lock.ts";
import { PostgresSink } from "../../../../src/sink/postgres/postgres-sink.ts";
import type { SinkContext } from "../../../../src/sink/sink.ts";
import { postgresSink } from "../../../support/api/connector-config.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const connectorId = "A-connector_of_thirty_letters_";
const owner = "lq2x3k4m";

function contextOf(signal: AbortSignal): SinkContext {
  const unused = () => {
    throw new Error("not for a Postgres sink");
  };
  const ignored = { warning: () => {}, setAside: () => {}, changed: () => {}, awaits: () => {} };
  const events = { ...ignored, durable: unused, failed: unused, retrying: unused };
  return {
    connectorId,
    owner,
    signal,
    checkpoints: { load: unused, save: unused },
    makesCopies: true,
    events,
  };
}

const sessionName = (purpose: "apply" | "copy", of: string | undefined) =>
  sinkSessionName(purpose, { connectorId, owner: of, signal: new AbortController().signal });

const sessions = async (name: string) =>
  (await server.query(`select from pg_stat_activity where application_name = ${escapeLiteral(name)}`)).length;

test("a session that its service left behind, which the network has forgotten, is ended by the next run", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const death = new AbortController();
  const context = contextOf(death.signal);
  {
    await using left = new PostgresSink(postgresSink({ ...server.connection(), port: proxy.port }), context);
    await left.open();
    proxy.strand();
    death.abort(new Error("the service died"));
  }
  expect(await sessions(sessionName("apply", owner))).toBe(1);
  const begunAt = performance.now();
  await using next = new PostgresSink(
    postgresSink(server.connection()),
    contextOf(AbortSignal.timeout(30_000)),
  );
  expect(await next.open()).toBeNull();
  // A session that is not ended would be waited for longer.
  expect(performance.now() - begunAt).toBeLessThan(12_000);
  await waitFor("one session", async () => (await sessions(sessionName("apply", owner))) === 1);
});

test.each([
  ["another connector's, whose id has the same hash", `millrace apply another ${owner}`],
  ["the same connector's of another service", sessionName("apply", "else")],
  ["one that bears no owner", sessionName("copy", undefined)],
])("%s is waited for, and named", async (_whose, name) => {
  await using holder = await server.connect();
  await holder.query(`set application_name = ${escapeLiteral(name)}`);
  await holder.query("select pg_advisory_lock_shared($1, hashtext($2))", [lockSpace, connectorId]);
  const { rows } = await holder.query<{ pid: number }>("select pg_backend_pid() as pid");
  await using client = await server.connect();
  const patience = { boundMs: 300, graceMs: 0 };
  const waiting = lockConnector(client, contextOf(AbortSignal.timeout(30_000)), patience);
  expect(waiting).rejects.toMatchObject({
    code: "sink_connection_lost",
    message: expect.stringContaining(`process ${rows[0]?.pid} (application ${name}, user `),
  });
  await waiting.catch(() => {});
  expect(await sessions(name)).toBe(1);
});

test("the signal ends the waiting", async () => {
  await using holder = await server.connect();
  await holder.query("select pg_advisory_lock($1, hashtext($2))", [lockSpace, connectorId]);
  await using client = await server.connect();
  const reason = new Error("stopped");
  const signal = AbortSignal.any([AbortSignal.timeout(30_000), AbortSignal.abort(reason)]);
  expect(lockConnector(client, contextOf(signal))).rejects.toBe(reason);
});
