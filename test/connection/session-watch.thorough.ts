import { expect, test } from "bun:test";
import type { Client } from "pg";
import { Semaphore } from "../../src/concurrency/semaphore.ts";
import { withPostgres } from "../../src/connection/postgres-client.ts";
import { whileWatched } from "../../src/connection/session-watch.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { startPooler } from "../support/servers/pooler.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

test("a sink that falls silent during a write is given up, and resumed when it is back", async () => {
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

test("a session is given up when the network falls silent amid a check", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using proxy = await TcpProxy.start(server.port);
  const connection = fullConnection({ ...server.connection(), port: proxy.port }, { ssl_mode: "Disable" });
  const signal = AbortSignal.timeout(60_000);
  const held = proxy.holdAt("pg_stat_activity");
  const ended = withPostgres(connection, "control", signal, "sink", (client) =>
    whileWatched({ connection, side: "sink", client, signal, firstCheckMs: 0 }, () =>
      client.query("select pg_sleep(60)"),
    ),
  ).catch((error: unknown) => error);
  await held;
  const silentAt = performance.now();
  expect(await ended).toMatchObject({ code: "sink_connection_lost" });
  expect(performance.now() - silentAt).toBeLessThan(40_000);
}, 90_000);

test("a session outlives a check that cannot connect, and not a server that no check reaches", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using proxy = await TcpProxy.start(server.port);
  const connection = fullConnection({ ...server.connection(), port: proxy.port }, { ssl_mode: "Disable" });
  const signal = AbortSignal.timeout(60_000);
  const sleep = (seconds: number) =>
    withPostgres(connection, "control", signal, "sink", (client) => {
      proxy.refuse(true);
      return whileWatched({ connection, side: "sink", client, signal, firstCheckMs: 0 }, () =>
        client.query(`select pg_sleep(${seconds})`),
      );
    }).then(
      () => null,
      (error: unknown) => error,
    );
  const short = sleep(4);
  await waitFor("a check that is refused", () => proxy.refused === 1);
  proxy.refuse(false);
  expect(await short).toBeNull();
  expect(proxy.accepted).toBe(2);
  expect(await sleep(60)).toMatchObject({ code: "sink_connection_lost" });
}, 90_000);

test("behind a pooler, which reports other process ids, no session is given up", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using pooler = await startPooler(server.port);
  const connection = fullConnection({ ...server.connection(), port: pooler.port }, { ssl_mode: "Disable" });
  const signal = AbortSignal.timeout(30_000);
  const answer = await withPostgres(connection, "control", signal, "sink", (client) =>
    whileWatched({ connection, side: "sink", client, signal, firstCheckMs: 0 }, () =>
      client.query("select pg_sleep(1), 'done' as said"),
    ),
  );
  expect(answer.rows[0].said).toBe("done");
}, 60_000);

test("a check tells of a backend at work, and not of one that waits for its client", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const connection = fullConnection(server.connection());
  const signal = AbortSignal.timeout(30_000);
  const toldOf = async (work: (client: Client) => Promise<unknown>) => {
    let [times, checks] = [0, 0];
    await withPostgres(connection, "snapshot", signal, "source", (client) => {
      const onWorking = () => void times++;
      const onCheck = async () => void checks++;
      const session = {
        connection,
        side: "source",
        client,
        signal,
        onWorking,
        onCheck,
        firstCheckMs: 0,
      } as const;
      return whileWatched(session, () => work(client));
    });
    expect(checks).toBeGreaterThan(0);
    return times;
  };
  expect(await toldOf((client) => client.query("select pg_sleep(2)"))).toBeGreaterThan(0);
  expect(await toldOf(() => Bun.sleep(2_000))).toBe(0);
}, 60_000);

test("the checks of sessions that share permits use one connection at a time", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const connection = fullConnection(server.connection());
  const signal = AbortSignal.timeout(30_000);
  const permits = new Semaphore();
  const hanging = Promise.withResolvers<void>();
  const checked: number[] = [];
  const onCheck = async (_: Client, pid: number) => {
    checked.push(pid);
    if (checked.length === 1) await hanging.promise;
  };
  const watched = () =>
    withPostgres(connection, "snapshot", signal, "source", (client) => {
      const session = {
        connection,
        side: "source",
        client,
        permits,
        onCheck,
        signal,
        firstCheckMs: 0,
      } as const;
      return whileWatched(session, () => client.query("select pg_advisory_lock_shared(1)"));
    });
  await using other = await server.connect();
  await other.query("select pg_advisory_lock(1)");
  const sessions = [watched(), watched(), watched()];
  const count = async (name: string) => {
    const sql = "select from pg_stat_activity where application_name = $1";
    return (await other.query(sql, [name])).rowCount;
  };
  await waitFor("a check", () => checked.length === 1);
  await waitFor("the sessions", async () => (await count("millrace snapshot")) === 3);
  expect(await count("millrace control")).toBe(1);
  hanging.resolve();
  await waitFor("the other checks", () => new Set(checked).size === 3);
  await other.query("select pg_advisory_unlock(1)");
  await Promise.all(sessions);
}, 60_000);
