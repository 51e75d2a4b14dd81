// Random changes of a table `t`, of which a trigger notes what a webhook is to get. Each change writes a number of its own, so that what
// arrived can be compared with what was noted, one by one.

import type { Client } from "pg";
import type { JsonBody } from "../../../src/demo/api-client.ts";
import { type BuiltStage, builtStage, stateIn } from "../program/built-stage.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";

export const auditedSchema = `
  create table t (id int primary key, n int not null); alter table t replica identity full;
  create schema audit; create sequence audit.n; create table audit.sent (id int, n int, deleted bool);
  create function audit.note() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' or (tg_op = 'UPDATE' and old.id <> new.id) then
      insert into audit.sent values (old.id, old.n, true);
    end if;
    if tg_op <> 'DELETE' then insert into audit.sent values (new.id, new.n, false); end if;
    return null;
  end $$;
  create trigger note after insert or update or delete on t for each row execute function audit.note()`;

export interface AuditedStage extends AsyncDisposable {
  readonly stage: BuiltStage;
  /** Has the service's state, and may be stopped by itself. */
  readonly stateServer: PostgresServer;
}

export async function auditedStage(): Promise<AuditedStage> {
  await using building = new AsyncDisposableStack();
  const stateServer = building.use(await PostgresServer.start({ settings: { fsync: "off" } }));
  await stateServer.createDatabase("state");
  // The next life begins when the lease of the last one has ended: the load goes on meanwhile.
  const environment = () => ({ ...stateIn(stateServer, "state"), MILLRACE_LEASE_SECONDS: "2" });
  const stage = building.use(await builtStage({ databases: ["a"], source: auditedSchema, environment }));
  const built = building.move();
  return { stage, stateServer, [Symbol.asyncDispose]: () => built.disposeAsync() };
}

/** A connector `a` of database `a` with table `t`, whose requests have at most 20 rows and are tried for ever. */
export async function auditedConnector({ server, api }: BuiltStage, webhook: JsonBody): Promise<void> {
  await api.createConnector("a", {
    source: {
      postgres: {
        connection: server.connection("a"),
        replication_type: { logical_replication: {} },
        catalog: { default_action: "Exclude", schemas: [{ name: "public" }] },
      },
    },
    sink: {
      webhook: {
        path_template: "{schema}/{table}",
        retry: { initial_backoff_ms: 5, max_backoff_ms: 40, max_retries: 0, max_retry_duration_ms: 0 },
        batch: { max_batch_size: 20 },
        ...webhook,
      },
    },
    limits: { cdc: { flush_interval_ms: 5 } },
  });
  const isStreaming = async () => (await api.connector("a")).status.state.realtime !== undefined;
  await waitFor("the stream", isStreaming, { timeoutMs: 60_000 });
}

/** A row as it is noted, and as it is sent. */
export interface SentRow {
  readonly [column: string]: unknown;
  readonly id: number;
  readonly n: number;
  readonly deleted: boolean;
}

export const random = (below: number) => Math.floor(Math.random() * below);

function changeSql(): string {
  const id = random(40);
  const next = "nextval('audit.n')::int";
  switch (random(6)) {
    case 0:
      return `delete from t where id = ${id}`;
    case 1:
      return `update t set id = 1000 + ${next}, n = ${next} where id = ${id}`;
    case 2:
      // A new key waits behind nothing: something is to be sent also while all others are parked.
      return `insert into t values (1000 + ${next}, ${next})`;
    default:
      return `insert into t values (${id}, ${next}) on conflict (id) do update set n = ${next}`;
  }
}

/** Small transactions at uneven distances, until `signal`. */
export async function writeUntil(signal: AbortSignal, client: Client, mostPauseMs = 12): Promise<void> {
  while (!signal.aborted) {
    const changes = Array.from({ length: 1 + random(4) }, changeSql);
    await client.query(`begin; ${changes.join("; ")}; commit`);
    await Bun.sleep(random(mostPauseMs));
  }
}

/** In the order of their numbers; of a row that is moved its removal comes last. */
export function inSourceOrder(rows: readonly SentRow[]): SentRow[] {
  return rows.toSorted((a, b) => a.n - b.n || Number(a.deleted) - Number(b.deleted));
}
