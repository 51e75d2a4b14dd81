// The source's server dies, and its standby takes over at the same address.
// https://www.postgresql.org/docs/current/logical-replication-failover.html

import { expect, setDefaultTimeout, test } from "bun:test";
import { dropSlot } from "../../src/source/postgres/slot/slot.ts";
import { LiveRun } from "../support/runtime/live-run.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { standbySlot, startStandby } from "../support/servers/standby.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

// Starting servers takes time on a busy machine.
setDefaultTimeout(90_000);

const rowsQuery = "select count(*)::int as count, sum(id)::int8::text as sum from t";

async function setUp(standbySettings: Record<string, string>) {
  await using building = new AsyncDisposableStack();
  const primary = building.use(await PostgresServer.start({ settings: { fsync: "off" } }));
  const sink = building.use(await PostgresServer.start({ settings: { fsync: "off" } }));
  await primary.query(
    "create table t (id int primary key generated always as identity); insert into t select from generate_series(1, 100)",
  );
  const standby = building.use(await startStandby(primary, standbySettings));
  // The walsender sends nothing that the standby does not have yet.
  await primary.query(`alter system set synchronized_standby_slots = '${standbySlot}'`);
  await primary.query("select pg_reload_conf()");
  const address = building.use(await TcpProxy.start(primary.port));
  const run = building.use(
    LiveRun.start({
      id: "failover",
      source: {
        postgres: {
          connection: { ...primary.connection(), port: address.port },
          replication_type: { logical_replication: {} },
        },
      },
      sink: { postgres: { connection: sink.connection() } },
    }),
  );
  const owned = building.move();
  return {
    primary,
    standby,
    sink,
    run,
    address,
    /** The primary dies under load, and the proxy then leads to the promoted standby. */
    async failOver(): Promise<void> {
      const loading = (async () => {
        // Ends with the server.
        while (true) await primary.query("insert into t select from generate_series(1, 50)");
      })().catch(() => {});
      await waitFor("changes travel", async () => {
        const [row] = await sink.query<{ count: number }>(rowsQuery);
        return (row?.count ?? 0) > 200;
      });
      await primary.stop("immediate");
      await loading;
      await standby.query("select pg_promote()");
      address.targetPort = standby.port;
      address.cut();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type At = Awaited<ReturnType<typeof setUp>>;

function slotSynced({ standby, run }: At): Promise<unknown> {
  const synced = `select from pg_replication_slots where slot_name = '${run.slot}' and synced and not temporary`;
  return waitFor("the slot at the standby", async () => {
    // It looks at the primary's slots every 30 s where nothing was new, and at once after this.
    await standby.query("select pg_reload_conf()");
    return (await standby.query(synced)).length === 1;
  });
}

test.concurrent("with a synchronised slot, the stream continues there and nothing is lost", async () => {
  await using at = await setUp({ sync_replication_slots: "on" });
  await at.run.untilRealtime();
  await slotSynced(at);
  await using session = await at.standby.connect();
  await expect(dropSlot(session, at.run.slot, AbortSignal.timeout(10_000))).rejects.toMatchObject({
    code: "source_is_standby",
    message: expect.stringContaining(
      `Run at the primary: SELECT pg_drop_replication_slot('${at.run.slot}');`,
    ),
  });
  await at.failOver();
  await at.standby.query("insert into t select from generate_series(1, 10)");
  const wanted = await at.standby.query(rowsQuery);
  let seen: unknown;
  await waitFor(
    "the sink to equal the new primary",
    async () => {
      seen = await at.sink.query(rowsQuery);
      return Bun.deepEquals(seen, wanted);
    },
    { timeoutMs: 10_000 },
  ).catch(() => {});
  expect(seen, `the last failure: ${at.run.failures.at(-1)?.error}`).toEqual(wanted);
});

/** Another attempt has failed: because of a standby, and the run is not over. */
async function refusedAgain({ run }: At): Promise<void> {
  const before = run.failures.length;
  // Two: the first may have begun before.
  await waitFor("another attempt", () => run.isOver || run.failures.length > before + 1);
  expect(run.failures.at(-1)?.error).toMatchObject({ code: "source_is_standby", retry: "transient" });
  expect(run.isOver).toBe(false);
}

test.concurrent("a standby that answers while it replays, before it is promoted, is waited for", async () => {
  await using at = await setUp({ sync_replication_slots: "on" });
  const { primary, standby, sink, run, address } = at;
  await run.untilRealtime();
  await slotSynced(at);
  await standby.query("select pg_wal_replay_pause()");
  await primary.query("insert into t select from generate_series(1, 50)");
  await waitFor("the rows", async () => (await sink.query("select from t")).length === 150);
  // Only the next look would publish it.
  await primary.query("create table late (id int primary key); insert into late values (1)");
  const [end] = await primary.query<{ end: string }>("select pg_current_wal_flush_lsn() as end");
  const received = `select pg_last_wal_receive_lsn() >= '${end!.end}' as yes`;
  await waitFor(
    "the log at the standby",
    async () => (await standby.query<{ yes: boolean }>(received))[0]?.yes,
  );
  await primary.stop("immediate");
  address.targetPort = standby.port;
  address.cut();
  await waitFor("the first attempt there", () => run.failures.length > 0);
  await refusedAgain(at);
  await standby.query("select pg_wal_replay_resume()");
  await waitFor(
    "the table",
    async () => (await standby.query("select to_regclass('late')::text as t"))[0]?.t,
  );
  await refusedAgain(at);
  await standby.query("select pg_promote()");
  await standby.query("insert into t select from generate_series(1, 10)");
  await waitFor("the sink to equal it", async () => {
    const isSame = async (query: string) =>
      Bun.deepEquals(await sink.query(query), await standby.query(query));
    return (await isSame(rowsQuery)) && (await isSame("select * from late").catch(() => false));
  });
});

test.concurrent("a standby without the slot answers for a while: the run goes on when the primary does again", async () => {
  await using at = await setUp({});
  const { primary, standby, sink, run, address } = at;
  await run.untilRealtime();
  address.targetPort = standby.port;
  address.cut();
  await waitFor("the first attempt there", () => run.failures.length > 0);
  await refusedAgain(at);
  address.targetPort = primary.port;
  await primary.query("insert into t select from generate_series(1, 10)");
  const wanted = await primary.query(rowsQuery);
  await waitFor("the sink to equal it", async () => Bun.deepEquals(await sink.query(rowsQuery), wanted));
});

test.concurrent("without its slot there, the run fails and says that changes may be missing; it is resumed", async () => {
  await using at = await setUp({});
  await at.run.untilRealtime();
  await at.failOver();
  const { error } = await at.run.untilFailed();
  expect(error).toMatchObject({ code: "slot_missing", retry: "permanent" });
  expect(error.message).toContain("the command Resume");
  expect(error.message).toContain("ReInitialize");
  await at.standby.query("delete from t where id < 50");
  await at.run.resume();
  await at.run.untilRealtime();
  await at.standby.query("insert into t select from generate_series(1, 10)");
  const wanted = await at.standby.query(rowsQuery);
  await waitFor("the sink to equal the new primary", async () => {
    const unproved = await at.sink.query("select from millrace.table_copy where is_unproved");
    return unproved.length === 0 && Bun.deepEquals(await at.sink.query(rowsQuery), wanted);
  });
});

/** A run whose source is the standby. */
async function streamingFrom(
  standby: PostgresServer,
  {
    id,
    primary,
    sink,
  }: { readonly id: string; readonly primary: PostgresServer; readonly sink: PostgresServer },
): Promise<LiveRun> {
  await using starting = new AsyncDisposableStack();
  const run = starting.use(
    LiveRun.start({
      id,
      source: {
        postgres: {
          connection: standby.connection(),
          replication_type: { logical_replication: { publication_name: "p" } },
        },
      },
      sink: { postgres: { connection: sink.connection() } },
    }),
  );
  // A slot at a standby waits until the primary has logged which transactions are open.
  const logging = setInterval(() => void primary.query("select pg_log_standby_snapshot()"), 200);
  await run.untilRealtime().finally(() => clearInterval(logging));
  starting.move();
  return run;
}

test.concurrent("a standby that is the source itself is promoted while it streams: the next run goes on there", async () => {
  await using primary = await PostgresServer.start({ settings: { fsync: "off" } });
  await using sink = await PostgresServer.start({ settings: { fsync: "off" } });
  await primary.query(
    "create table t (id int primary key generated always as identity); create publication p for table t",
  );
  await using standby = await startStandby(primary);
  await using run = await streamingFrom(standby, { id: "promoted", primary, sink });
  const arrived = async () => {
    const wanted = await standby.query(rowsQuery);
    return waitFor("the sink to equal it", async () => Bun.deepEquals(await sink.query(rowsQuery), wanted));
  };
  await primary.query("insert into t select from generate_series(1, 10)");
  await waitFor("the rows at the standby", async () => (await standby.query("select from t")).length === 10);
  await arrived();
  await primary.stop();
  await standby.query("select pg_promote()");
  await standby.query("insert into t select from generate_series(1, 10)");
  await arrived();
  expect(run.failures).toEqual([]);
  await run.restart();
  await run.untilRealtime();
  await standby.query("insert into t select from generate_series(1, 10)");
  await arrived();
  expect(run.failures).toEqual([]);
});

test.concurrent("a standby that is the source crashes, and comes up at an earlier place of its log: the run goes on", async () => {
  await using primary = await PostgresServer.start({ settings: { fsync: "off" } });
  await using sink = await PostgresServer.start({ settings: { fsync: "off" } });
  await primary.query("create table t (id int primary key); create publication p for table t");
  await using standby = await startStandby(primary);
  await using run = await streamingFrom(standby, { id: "earlier", primary, sink });
  await primary.query("insert into t select generate_series(1, 100)");
  await waitFor("the rows", async () => (await sink.query("select from t")).length === 100);
  // Until it may, it does not replay the last commits again.
  await standby.query("alter system set recovery_min_apply_delay = '10min'");
  await standby.stop("immediate");
  await standby.launch();
  await primary.query("insert into t values (101)");
  const isRefused = () => run.failures.some(({ error }) => error.code === "source_is_standby");
  await waitFor("an attempt", () => run.isOver || isRefused());
  expect(run.failures.at(-1)?.error.message).toContain("it has replayed the log to ");
  await standby.query("alter system reset recovery_min_apply_delay");
  await standby.query("select pg_reload_conf()");
  await waitFor("the last row", async () => (await sink.query("select from t")).length === 101);
  expect(run.isOver).toBe(false);
});
