// A replica stands still, another one takes its connector over, and the first one goes on as if nothing had been: between two real servers.
// What it does then is refused, the sink equals the source, and the one that has taken over does not notice.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import { tableDifferences } from "../support/oracles/table-differences.ts";
import { ConnectorReplicas } from "../support/replicas/connector-replicas.ts";
import type { Replica } from "../support/replicas/replica.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(90_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_wal_senders: 30 } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

/** Two databases, a connector between them, and the state of its replicas. */
class Stage implements AsyncDisposable {
  readonly id = `fenced${++count}`;
  readonly source = `${this.id}_source`;
  readonly sink = `${this.id}_sink`;
  readonly #replicas = new ConnectorReplicas(server, this.id, [this.source, this.sink]);
  readonly state = this.#replicas.state;

  static async create(sql: string): Promise<Stage> {
    const stage = new Stage();
    await server.createDatabase(stage.source);
    await server.createDatabase(stage.sink);
    await server.query(sql, stage.source);
    return stage;
  }

  request(change: { readonly sourcePort?: number; readonly sinkPort?: number } = {}): ConnectorRequest {
    const { port } = server.connection();
    return {
      id: this.id,
      source: {
        postgres: {
          connection: { ...server.connection(this.source), port: change.sourcePort ?? port },
          replication_type: { logical_replication: {} },
        },
      },
      sink: { postgres: { connection: { ...server.connection(this.sink), port: change.sinkPort ?? port } } },
    };
  }

  replica(request = this.request(), term?: number): Promise<Replica> {
    return this.#replicas.start(request, term);
  }

  sql = <Row extends object>(text: string) => server.query<Row>(text, this.source);

  /** The walsender and the sessions at the sink of this term. */
  async sessions(term: number): Promise<readonly number[]> {
    const rows = await server.query<{ pid: number }>(
      `select pid from pg_stat_activity where application_name ~ '^millrace (replication|apply) .*t${term}$'
        and datname like '${this.id}\\_%' order by pid`,
    );
    return rows.map(({ pid }) => pid);
  }

  async checkpoint(): Promise<string | undefined> {
    const [row] = await server.query<{ lsn: string }>(
      `select resume_lsn::text as lsn from millrace.checkpoint where connector_id = '${this.id}'`,
      this.sink,
    );
    return row?.lsn;
  }

  async expectEqual(): Promise<void> {
    let difference: object = {};
    const isEqual = async () => {
      difference = await server.with(this.source, (source) =>
        server.with(this.sink, (sink) => tableDifferences(source, sink)),
      );
      return Object.keys(difference).length === 0;
    };
    await waitFor("the sink to equal the source", isEqual, { timeoutMs: 30_000, intervalMs: 100 }).catch(
      () => {},
    );
    expect(difference).toEqual({});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#replicas[Symbol.asyncDispose]();
  }
}

const someRows =
  "create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 500) i";
const load = (from: number) =>
  `insert into t select i, 'n' || i from generate_series(${from}, ${from + 99}) i; update t set v = v || '+' where id % 7 = 0; delete from t where id % 11 = ${from % 11}`;

/** The first replica goes on, does its worst, and notices at last. The second one is as it was. */
async function thawAndNotice(stage: Stage, first: Replica, second: Replica): Promise<void> {
  const before = await stage.sessions(second.term);
  const failures = second.failures.length;
  first.thaw();
  // As if it did not notice for long that its lease was over: each attempt of its fails.
  await first.untilFailed("lease_lost", 2);
  first.lose();
  await stage.sql(load(5_000));
  await stage.expectEqual();
  expect(await stage.sessions(second.term)).toEqual(before);
  expect(second.failures.slice(failures)).toEqual([]);
  expect(await stage.sessions(first.term)).toEqual([]);
}

test("a replica that stands still amid the stream", async () => {
  await using stage = await Stage.create(someRows);
  const first = await stage.replica();
  await first.untilPhase("realtime");
  await stage.sql(load(1_000));
  first.freeze();
  await stage.sql(load(2_000));
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await stage.sql(load(3_000));
  await stage.expectEqual();
  await thawAndNotice(stage, first, second);
});

test("a replica that stands still amid the first copies", async () => {
  const tables = [1, 2, 3, 4].map(
    (i) => `create table big${i} (id int primary key, v text);
      insert into big${i} select i, repeat('x', 200) || i from generate_series(1, 60000) i;`,
  );
  await using stage = await Stage.create(`${someRows}; ${tables.join(" ")}`);
  const first = await stage.replica();
  await first.untilPhase("snapshot");
  first.freeze();
  await stage.sql(
    `${load(1_000)}; update big1 set v = 'changed' where id % 100 = 0; delete from big2 where id < 100`,
  );
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await stage.sql("update big3 set v = 'again' where id % 50 = 0");
  await stage.expectEqual();
  await thawAndNotice(stage, first, second);
});

test("a replica that stands still amid a transaction that is applied while it is in progress", async () => {
  await using stage = await Stage.create(someRows);
  await server.query(`alter database "${stage.source}" set debug_logical_replication_streaming = immediate`);
  const first = await stage.replica();
  await first.untilPhase("realtime");
  await using open = await server.connect(stage.source);
  await open.query("begin");
  await open.query("insert into t select i, 'open' || i from generate_series(10000, 30000) i");
  const isApplied = async () =>
    (
      await server.query(
        `select from pg_stat_activity where application_name like 'millrace copy ${stage.id} %' and backend_xid is not null`,
      )
    ).length > 0;
  await waitFor("a part of it at the sink", isApplied);
  first.freeze();
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await open.query("insert into t select i, 'later' || i from generate_series(30001, 30100) i; commit");
  await stage.expectEqual();
  await thawAndNotice(stage, first, second);
});

test("a COMMIT that is on its way when another replica takes over moves nothing", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using stage = await Stage.create(someRows);
  const first = await stage.replica(stage.request({ sinkPort: proxy.port }));
  await first.untilPhase("realtime");
  const held = proxy.holdAt("commit\0");
  await stage.sql(load(1_000));
  await held;
  first.freeze();
  const at = await stage.checkpoint();
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await stage.expectEqual();
  expect(await stage.checkpoint()).not.toBe(at);
  proxy.resume();
  await stage.expectEqual();
  await thawAndNotice(stage, first, second);
});

test("a replica that stands still while it publishes the tables holds nobody up by its locks", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using stage = await Stage.create(someRows);
  const held = proxy.holdAt("commit\0");
  const first = await stage.replica(stage.request({ sourcePort: proxy.port }));
  await held;
  first.freeze();
  const [lock] = await server.query(
    `select from pg_locks where relation = 't'::regclass and mode = 'ShareUpdateExclusiveLock'`,
    stage.source,
  );
  expect(lock).toBeDefined();
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await stage.expectEqual();
  const published = () => stage.sql("select * from pg_publication_tables order by 1, 2, 3");
  const before = await published();
  proxy.resume();
  await thawAndNotice(stage, first, second);
  expect(await published()).toEqual(before);
});

test("a replica that begins late, under a term that is over, disturbs nothing and changes nothing", async () => {
  await using stage = await Stage.create(someRows);
  const late = stage.state.take();
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await stage.sql(load(1_000));
  await stage.expectEqual();
  const before = { sessions: await stage.sessions(second.term), at: await stage.checkpoint() };
  expect(before.sessions).toHaveLength(2);
  const first = await stage.replica(stage.request(), late);
  await first.untilFailed("lease_lost", 3);
  expect({ sessions: await stage.sessions(second.term), at: await stage.checkpoint() }).toEqual(before);
  await stage.sql(load(2_000));
  await stage.expectEqual();
  expect(second.failures).toEqual([]);
});

test("a replica that begins late finds no session of the newer one, and is refused all the same", async () => {
  await using stage = await Stage.create(someRows);
  const late = stage.state.take();
  const second = await stage.replica();
  await second.untilPhase("realtime");
  await second.stop();
  await waitFor("no session", async () => (await stage.sessions(second.term)).length === 0);
  await stage.sql(load(1_000));
  const before = await stage.checkpoint();
  const first = await stage.replica(stage.request(), late);
  await first.untilFailed("lease_lost", 2);
  expect(await stage.checkpoint()).toBe(before);
  first.lose();
  const third = await stage.replica();
  await third.untilPhase("realtime");
  await stage.expectEqual();
});
