// kill -9 of the service at random moments, while time cuts the requests and the receiver answers 5xx, resets, hangs, or answers too
// late. Deduplicated by Idempotency-Key alone, every change arrived exactly once; by `_sm_version` the rows are the source's.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Client } from "pg";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/compiled-binary.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { heldByVersion, heldInOrder, keysThatWentBack, rowsOf } from "../support/webhook-oracles.ts";
import { type ReceiverScript, WebhookReceiver } from "../support/webhook-receiver.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

/** `bun run test:long` has 50. */
const kills = Number(process.env.MILLRACE_WEBHOOK_KILLS ?? 2);
const timeoutMs = 400;

/** Each change writes a number of its own, and a trigger notes what a webhook is to get of it. */
const schema = `
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

const random = (below: number) => Math.floor(Math.random() * below);

function changeSql(): string {
  const id = random(40);
  const next = "nextval('audit.n')::int";
  switch (random(5)) {
    case 0:
      return `delete from t where id = ${id}`;
    case 1:
      return `update t set id = 1000 + ${next}, n = ${next} where id = ${id}`;
    default:
      return `insert into t values (${id}, ${next}) on conflict (id) do update set n = ${next}`;
  }
}

/** Small transactions at uneven distances, until `signal`. */
async function write(client: Client, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const changes = Array.from({ length: 1 + random(4) }, changeSql);
    await client.query(`begin; ${changes.join("; ")}; commit`);
    await Bun.sleep(random(12));
  }
}

const moody: ReceiverScript = () => {
  const mood = Math.random();
  if (mood < 0.08) return [500, 502, 503, 429][random(4)];
  if (mood < 0.11) return { kind: "hang" };
  if (mood < 0.14) return { kind: "reset" };
  // It has the rows, and nobody hears of it.
  if (mood < 0.17) return { kind: "answer", status: 200, delayMs: timeoutMs + 100 };
  return { kind: "answer", status: 200, delayMs: random(15) };
};

test(`every change exactly once under ${kills} kill -9`, async () => {
  await using stack = new AsyncDisposableStack();
  const [command, server] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings: { fsync: "off" } }),
  ]);
  stack.use(server);
  for (const database of ["a", "state"]) await server.createDatabase(database);
  await server.query(schema, "a");
  const receiver = stack.use(await WebhookReceiver.start({ script: moody }));
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-kill-webhook-"));
  stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const { user, password, host, port } = server.connection("state");
  const environment = { DATABASE_URL: `postgres://${user}:${password}@${host}:${port}/state` };
  const service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory, environment }));
  const api = new ApiClient(service.url);
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
        ...{ url: receiver.url, path_template: "{schema}/{table}", request_timeout_ms: timeoutMs },
        retry: { initial_backoff_ms: 5, max_backoff_ms: 40, max_retries: 0, max_retry_duration_ms: 0 },
        batch: { max_batch_size: 20 },
      },
    },
    limits: { cdc: { flush_interval_ms: 5 } },
  });
  const isStreaming = async () => (await api.connector("a")).status.state.realtime !== undefined;
  await waitFor("the stream", isStreaming, { timeoutMs: 60_000 });

  const over = new AbortController();
  const writing = write(stack.use(await server.connect("a")), over.signal);
  try {
    for (let kill = 0; kill < kills; kill++) {
      const { length } = receiver.requests;
      await receiver.until(() => receiver.requests.length > length, 60_000);
      await Bun.sleep(random(500));
      await service.kill();
      await service.launch();
    }
  } finally {
    over.abort();
    await writing;
  }
  type Sent = { id: number; n: number; deleted: boolean };
  const wanted = await server.query<Sent>("select * from audit.sent", "a");
  const sent = () =>
    rowsOf(receiver, "t").map(({ id, n, _sm_deleted }) => ({ id, n, deleted: _sm_deleted }) as Sent);
  const inOrder = (rows: readonly Sent[]) =>
    rows.toSorted((a, b) => a.n - b.n || Number(a.deleted) - Number(b.deleted));
  const isThere = () => sent().length >= wanted.length;
  await waitFor("all changes", isThere, { timeoutMs: 60_000, intervalMs: 100 }).catch(() => {});
  expect(inOrder(sent())).toEqual(inOrder(wanted));

  const rows = await server.query<{ id: number; n: number }>("select * from t order by id", "a");
  for (const held of [heldByVersion(receiver, "t"), heldInOrder(receiver, "t")])
    expect([...held.values()].toSorted((a, b) => Number(a.id) - Number(b.id))).toEqual(rows);
  expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
  const bodies = new Map<string, string>();
  for (const { headers, body } of receiver.requests) {
    const key = headers["idempotency-key"]!;
    expect(bodies.get(key) ?? body).toBe(body);
    bodies.set(key, body);
  }
  expect(receiver.requests.length).toBeGreaterThan(bodies.size);
});
