// Real connectors from one source, each with a table of its own, every other one to a webhook; and a steady load for them.

import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { webhookTarget } from "../contenders/targets.ts";
import type { NewConnector } from "./replica-bench.ts";
import { changesPerSecond } from "./simulated-run.ts";

const database = "shop";
const settings = { fsync: "off", max_connections: 300, max_wal_senders: 60, max_replication_slots: 60 };

export class RealConnectors implements AsyncDisposable {
  private constructor(
    private readonly owned: AsyncDisposableStack,
    private readonly server: PostgresServer,
    readonly connectors: readonly NewConnector[],
  ) {}

  static async start(count: number): Promise<RealConnectors> {
    await using building = new AsyncDisposableStack();
    const server = building.use(await PostgresServer.start({ settings }));
    await server.createDatabase(database);
    const receiver = building.use(await webhookTarget());
    const connectors: NewConnector[] = [];
    for (let i = 0; i < count; i++) {
      await server.query(
        `create table t${i} (id bigint generated always as identity primary key, v text)`,
        database,
      );
      const sink = i % 2 === 0 ? await postgresSink(server, i) : receiver.sink;
      connectors.push({ id: `c${i}`, source: { postgres: sourceOf(server, i) }, sink });
    }
    return new RealConnectors(building.move(), server, connectors);
  }

  /** Each connector gets its changes one by one, at moments of its own, until this is disposed of. */
  async write(): Promise<AsyncDisposable> {
    const { length } = this.connectors;
    const client = await this.server.connect(database);
    const [{ pid } = { pid: 0 }] = (await client.query<{ pid: number }>("select pg_backend_pid() as pid"))
      .rows;
    const writing = client.query(`
      do $$
      declare began timestamptz := clock_timestamp();
      begin
        for n in 0..2000000000 loop
          perform pg_sleep(n / ${changesPerSecond * length}.0 - extract(epoch from clock_timestamp() - began));
          execute format('insert into %I (v) values (''a change'')', 't' || (n % ${length}));
          commit;
        end loop;
      end $$`);
    const ended = writing.then(
      () => {},
      () => {},
    );
    return {
      [Symbol.asyncDispose]: async () => {
        await this.server.query(`select pg_terminate_backend(${pid})`, database);
        await ended;
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned.disposeAsync();
  }
}

function sourceOf(server: PostgresServer, i: number) {
  const tables = [{ name: `t${i}`, action: "Include", columns: [] }];
  return {
    connection: server.connection(database),
    replication_type: { logical_replication: {} },
    catalog: {
      name: database,
      default_action: "Exclude",
      schemas: [{ name: "public", action: "Exclude", tables }],
    },
  };
}

async function postgresSink(server: PostgresServer, i: number) {
  const name = `sink_${i}`;
  await server.createDatabase(name);
  return { postgres: { connection: server.connection(name) } };
}
