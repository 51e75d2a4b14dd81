// Failures of connections: servers that restart, terminated sessions, and networks that drop, stall and half-close. The
// run continues by itself within 10 s after the cause has ended, without loss or duplicates.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { dropMeanwhile } from "../support/drop-meanwhile.ts";
import { isWholeMatrix, pick, variants } from "../support/matrix.ts";
import { LiveRun } from "../support/runtime/live-run.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

const isLong = process.env.MILLRACE_LONG_TESTS === "1";
// Starting servers takes time on a busy machine.
setDefaultTimeout(isLong ? 300_000 : 120_000);

/** When a run must continue, after its cause has ended. */
const recoveryMs = 10_000;
/** In `bun run test:long` as long as documented; otherwise five times the server's wal_sender_timeout. */
const hangSeconds = isLong ? 60 : 10;
/** In `bun run test:long` minutes; otherwise three times wal_sender_timeout, because nothing else detects the end. */
const stallMs = isLong ? 180_000 : 6_000;
/** For concurrent tests, next to other files, on a machine that may be busy. */
const patientMs = 5 * recoveryMs;

let source: PostgresServer;
let sink: PostgresServer;
let count = 0;

beforeAll(async () => {
  [source, sink] = await Promise.all([
    PostgresServer.start({ settings: { wal_sender_timeout: "2s", fsync: "off" } }),
    PostgresServer.start({ settings: { fsync: "off" } }),
  ]);
});
afterAll(async () => {
  await source[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
});

/** A connector from a new database to another, each behind a proxy. Rows have ids from 1. */
interface SetUp {
  readonly rows?: number;
  readonly retryWindowSeconds?: number;
  /** Replaces the source with the short timeout. */
  readonly source?: PostgresServer;
}

async function setUp(options: SetUp = {}) {
  const { source: from = source } = options;
  const id = `survival${++count}`;
  await using building = new AsyncDisposableStack();
  await from.createDatabase(`${id}_source`);
  await sink.createDatabase(id);
  await from.query(
    `create table t (id int primary key generated always as identity, v text);
     insert into t (v) select repeat('x', 100) from generate_series(1, ${options.rows ?? 3})`,
    `${id}_source`,
  );
  const sourceProxy = building.use(await TcpProxy.start(from.port));
  const sinkProxy = building.use(await TcpProxy.start(sink.port));
  const connect = (server: PostgresServer, proxy: TcpProxy, database: string) => ({
    ...server.connection(database),
    port: proxy.port,
  });
  const run = building.use(
    LiveRun.start({
      id,
      source: {
        postgres: {
          connection: connect(from, sourceProxy, `${id}_source`),
          replication_type: {
            logical_replication: { retry_window_seconds: options.retryWindowSeconds ?? 0 },
          },
        },
      },
      sink: { postgres: { connection: connect(sink, sinkProxy, id) } },
    }),
  );
  const owned = building.move();
  const rowsQuery = "select count(*)::int as count, sum(id)::int8::text as sum, min(v) as v from t";
  return {
    id,
    run,
    sourceProxy,
    sinkProxy,
    insert: (rows = 1) =>
      from
        .query(`insert into t (v) select 'x' from generate_series(1, ${rows})`, `${id}_source`)
        .then(() => {}),
    /** Waits until the sink equals the source. The primary key rules out duplicates. */
    async equal(timeoutMs = patientMs): Promise<void> {
      const [wanted] = await from.query(rowsQuery, `${id}_source`);
      let seen: unknown;
      await waitFor(
        "the sink to equal the source",
        async () => {
          [seen] = await sink.query(rowsQuery, id);
          return Bun.deepEquals(seen, wanted);
        },
        { timeoutMs },
      ).catch(() => {});
      expect(seen, `the last failure: ${run.failures.at(-1)?.error}`).toEqual(wanted);
    },
    async [Symbol.asyncDispose]() {
      await owned.disposeAsync();
      dropMeanwhile(from, `${id}_source`);
      dropMeanwhile(sink, id);
    },
  };
}

/** Terminates the sessions with that purpose in that database, and returns their number. */
async function terminate(server: PostgresServer, database: string, purpose: string): Promise<number> {
  const rows = await server.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname like '${database}%' and application_name like 'millrace ${purpose}%'`,
  );
  return rows.length;
}

describe("a server restarts", () => {
  type Restart = readonly ["source" | "sink", "fast" | "immediate"];
  const everyday: readonly Restart[] = [
    ["source", "immediate"],
    ["sink", "fast"],
  ];
  const others: readonly Restart[] = [
    ["source", "fast"],
    ["sink", "immediate"],
  ];
  test.each(variants(everyday, others))("the %s, %s", async (side, mode) => {
    await using at = await setUp();
    await at.run.untilRealtime();
    const server = side === "source" ? source : sink;
    await at.insert(500);
    await server.stop(mode);
    await server.launch();
    await at.insert();
    await at.equal(recoveryMs);
    expect(at.run.failures.every(({ error }) => error.retry === "transient")).toBe(true);
  });
});

describe("the server terminates a session", () => {
  test.concurrent("the walsender, and the session that applies", async () => {
    await using at = await setUp();
    await at.run.untilRealtime();
    for (const [server, purpose] of [
      [source, "replication"],
      [sink, "apply"],
    ] as const) {
      await at.insert(500);
      expect(await terminate(server, at.id, purpose)).toBe(1);
      await at.insert();
      await at.equal();
    }
  });

  test.concurrent.each([
    ["source", "snapshot"],
    ["sink", "copy"],
  ] as const)("in a copy: at the %s", async (side, purpose) => {
    await using at = await setUp({ rows: isWholeMatrix ? 300_000 : 100_000 });
    const server = side === "source" ? source : sink;
    await waitFor("the copy", async () => (await terminate(server, at.id, purpose)) > 0, { intervalMs: 5 });
    await at.insert();
    await at.equal();
  });
});

describe("a network", () => {
  const sides = ["sourceProxy", "sinkProxy"] as const;

  test.concurrent.each(sides)("drops and half-closes its connections: %s", async (side) => {
    await using at = await setUp();
    await at.run.untilRealtime();
    const faults = [
      () => at[side].cut(),
      () => at[side].halfClose("client"),
      () => at[side].halfClose("upstream"),
    ];
    for (const fault of faults) {
      await at.insert(500);
      fault();
      await at.insert();
      await at.equal();
    }
  });

  test.concurrent.each(pick(sides, (side) => side === "sinkProxy"))(
    "stalls for longer than wal_sender_timeout: %s",
    async (side) => {
      await using at = await setUp();
      await at.run.untilRealtime();
      at[side].stall();
      await at.insert(500);
      await Bun.sleep(stallMs);
      at[side].resume();
      await at.insert();
      await at.equal();
    },
  );

  test.concurrent.each(pick(sides, (side) => side === "sourceProxy"))(
    "forgets connections without a word, and lets new ones through: %s",
    async (side) => {
      await using at = await setUp();
      await at.run.untilRealtime();
      at[side].strand();
      await at.insert(500);
      await at.equal();
    },
  );
});

test.concurrent("a stream that the network forgot is given up long before a long wal_sender_timeout", async () => {
  await using at = await setUp({ source: sink });
  await at.run.untilRealtime();
  at.sourceProxy.strand();
  await at.insert(500);
  await at.equal();
});

test.concurrent("a sink that hangs for long costs no connection to the source", async () => {
  await using at = await setUp();
  await at.run.untilRealtime();
  const walsender = async () => {
    const [row] = await source.query<{ pid: number }>(
      `select active_pid as pid from pg_replication_slots where slot_name = '${at.run.slot}'`,
    );
    return row?.pid;
  };
  const before = await walsender();
  await using holder = await sink.connect(at.id);
  await holder.query("begin; lock table t");
  for (let second = 0; second < hangSeconds; second += 1) {
    await at.insert(500);
    await Bun.sleep(1_000);
  }
  await holder.query("rollback");
  await at.equal();
  expect(await walsender()).toBe(before as number);
  expect(at.run.failures).toEqual([]);
});

test.concurrent("retry_window_seconds: the run retries that long, then fails with the reason; Start continues", async () => {
  await using at = await setUp({ retryWindowSeconds: 3 });
  await at.run.untilRealtime();
  at.sourceProxy.refuse(true);
  at.sourceProxy.cut();
  const begun = performance.now();
  const { error, health } = await at.run.untilFailed();
  expect(performance.now() - begun).toBeGreaterThan(2_500);
  expect(performance.now() - begun).toBeLessThan(patientMs);
  expect(at.run.failures.length).toBeGreaterThan(1);
  expect(error.code).toStartWith("source_");
  expect("failed" in health && health.failed.reason).toContain("Given up after 3 s");
  await at.insert(500);
  at.sourceProxy.refuse(false);
  await at.run.restart();
  await at.equal();
});
