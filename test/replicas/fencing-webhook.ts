// A replica that delivers to a webhook stands still, another one takes its connector over, and the first one goes on. A receiver cannot be told
// which of them is right. So what both send is the same under the same key, and what the first one cannot record it does not send.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import { type HeldRows, heldByVersion, heldInOrder } from "../support/oracles/webhook-oracles.ts";
import { ConnectorReplicas } from "../support/replicas/connector-replicas.ts";
import type { Replica } from "../support/replicas/replica.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(120_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_wal_senders: 30 } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

class Stage implements AsyncDisposable {
  readonly id = `hooked${++count}`;
  readonly #replicas = new ConnectorReplicas(server, this.id, [this.id]);
  readonly state = this.#replicas.state;

  private constructor(readonly receiver: WebhookReceiver) {}

  static async create(sql: string): Promise<Stage> {
    const stage = new Stage(await WebhookReceiver.start());
    await server.createDatabase(stage.id);
    await stage.sql(sql);
    return stage;
  }

  sql = <Row extends object>(text: string) => server.query<Row>(text, this.id);

  async replica(): Promise<Replica> {
    const request: ConnectorRequest = {
      id: this.id,
      source: {
        postgres: {
          connection: server.connection(this.id),
          replication_type: { logical_replication: {} },
        },
      },
      sink: {
        webhook: {
          url: this.receiver.url,
          path_template: "{schema}/{table}",
          batch: { max_batch_size: 20 },
        },
      },
    };
    return await this.#replicas.start(request);
  }

  /** Each answer takes so long: much waits in memory then. */
  slow(delayMs: number): void {
    this.receiver.script = () => ({ kind: "answer", status: 200, delayMs });
  }

  async expectHeld(held: (receiver: WebhookReceiver, table: string) => HeldRows): Promise<void> {
    const rows = await this.sql<{ row: { id: number } }>("select row_to_json(m) as row from m order by id");
    const wanted = rows.map(({ row }) => [row.id, row]);
    const now = () => [...held(this.receiver, "m")].toSorted(([a], [b]) => Number(a) - Number(b));
    const isHeld = () => Bun.deepEquals(now(), wanted);
    await waitFor("the receiver to hold the source", isHeld, { timeoutMs: 40_000, intervalMs: 100 }).catch(
      () => {},
    );
    if (isHeld()) return;
    const found = new Map(now());
    const wrong = wanted.filter(([id, row]) => !Bun.deepEquals(found.get(id), row));
    expect({ wrong: wrong.slice(0, 3), rows: found.size }).toEqual({ wrong: [], rows: wanted.length });
  }

  /** Keys that came with more than one body. */
  contradictions(): readonly string[] {
    const bodies = new Map<string, string>();
    return this.receiver.requests.flatMap(({ headers, body }) => {
      const key = headers["idempotency-key"]!;
      const known = bodies.get(key) ?? body;
      bodies.set(key, known);
      return known === body ? [] : [key];
    });
  }

  /** Requests that came again under the same key. */
  get repeated(): number {
    const keys = new Set(this.receiver.requests.map(({ headers }) => headers["idempotency-key"]));
    return this.receiver.requests.length - keys.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#replicas[Symbol.asyncDispose]();
    await this.receiver[Symbol.asyncDispose]();
  }
}

const someRows =
  "create table m (id int primary key, v text); insert into m select i, 'v' || i from generate_series(1, 200) i";

/** Many small transactions, whose rows overlap. */
async function change(stage: Stage, round: number): Promise<void> {
  await server.with(stage.id, async (client) => {
    for (let i = 0; i < 60; i++) {
      await client.query(
        `update m set v = 'r${round}.${i}' where id % 10 = ${i % 10}; insert into m values (${1_000 + round * 100 + i}, 'new'); delete from m where id = ${990 + round * 100 + i}`,
      );
    }
  });
}

/** The first one goes on as if nothing had been, until what it is to record is refused. */
async function thawAndEnd(first: Replica): Promise<void> {
  first.thaw();
  await first.untilFailed("lease_lost");
  first.lose();
}

test.each([0, 150, 400])("it stands still %d ms after it has begun to send much", async (afterMs) => {
  await using stage = await Stage.create(someRows);
  const first = await stage.replica();
  await first.untilPhase("realtime");
  stage.slow(250);
  const before = stage.receiver.requests.length;
  await change(stage, 1);
  // What it has begun to send comes again from the other one.
  await waitFor("its first request", () => stage.receiver.requests.length > before);
  await sleep(afterMs);
  first.freeze();
  stage.slow(20);
  await change(stage, 2);
  await stage.sql("alter table m add column w text default 'w'; insert into m (id, v) values (5000, 'wide')");
  const second = await stage.replica();
  await second.untilPhase("realtime");
  // Both send at one time, and the older one what is long past.
  const ended = thawAndEnd(first);
  await change(stage, 3);
  await ended;
  await stage.expectHeld(heldInOrder);
  await stage.expectHeld(heldByVersion);
  expect(stage.contradictions()).toEqual([]);
  expect(stage.repeated).toBeGreaterThan(0);
  expect(second.failures).toEqual([]);
});

test("it goes on only when the other one has delivered everything", async () => {
  await using stage = await Stage.create(someRows);
  const first = await stage.replica();
  await first.untilPhase("realtime");
  stage.slow(250);
  await change(stage, 1);
  first.freeze();
  stage.slow(5);
  const second = await stage.replica();
  await change(stage, 2);
  await stage.expectHeld(heldInOrder);
  const before = stage.receiver.requests.length;
  await thawAndEnd(first);
  await sleep(500);
  const keys = new Set(
    stage.receiver.requests.slice(0, before).map(({ headers }) => headers["idempotency-key"]),
  );
  const late = stage.receiver.requests.slice(before);
  // Nothing that the other one has not sent.
  expect(late.filter(({ headers }) => !keys.has(headers["idempotency-key"]))).toEqual([]);
  await stage.expectHeld(heldInOrder);
  await stage.expectHeld(heldByVersion);
  expect(stage.contradictions()).toEqual([]);
  expect(second.failures).toEqual([]);
});

test.each([5, 60, 200])("it stands still %d ms after the first copies have begun", async (afterMs) => {
  await using stage = await Stage.create(
    `${someRows}; insert into m select i, repeat('x', 300) || i from generate_series(10000, 14000) i`,
  );
  stage.slow(5);
  const first = await stage.replica();
  await first.untilPhase("snapshot");
  await sleep(afterMs);
  first.freeze();
  await change(stage, 1);
  const second = await stage.replica();
  await waitFor("the take-over", () => second.phase === "snapshot" || second.phase === "realtime");
  const ended = thawAndEnd(first);
  await change(stage, 2);
  await ended;
  await second.untilPhase("realtime");
  await change(stage, 3);
  // Rows of two copies have different keys: their versions tell which are newer.
  await stage.expectHeld(heldByVersion);
  expect(stage.contradictions()).toEqual([]);
});
