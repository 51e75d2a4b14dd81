// Rows of which no message can be sent, at real brokers: they are parked, all others go out, and after a retry each change has arrived once,
// in the order of its key, whatever dies. MILLRACE_PARKING_KILLS says how often the service dies.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ParkedList } from "../../src/connector/parked-message.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";
import {
  auditedSchema,
  inSourceOrder,
  random,
  type SentRow,
  writeUntil,
} from "../support/loads/audited-load.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { SchemaRegistryDouble } from "../support/rows/schema-registry.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const kills = Number(process.env.MILLRACE_PARKING_KILLS ?? 8);
const wait = { timeoutMs: 60_000, intervalMs: 200 };

const owned = new AsyncDisposableStack();
let command: string;
let server: PostgresServer;
let cluster: KafkaCluster;

beforeAll(async () => {
  [command, server, cluster] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings: { fsync: "off" } }),
    KafkaCluster.start({ brokers: 1 }),
  ]);
  owned.use(server);
  owned.use(cluster);
});
afterAll(() => owned.disposeAsync());

interface Row {
  readonly [column: string]: unknown;
  readonly id: number;
  readonly n: number;
  readonly _sm_deleted: boolean;
}

interface Stage extends AsyncDisposable {
  readonly service: ServiceProcess;
  readonly sql: (text: string) => Promise<unknown>;
  readonly call: (method: string, path: string, body?: object) => Promise<unknown>;
  readonly parked: () => Promise<ParkedList["parked"]>;
  /** What readers of committed messages see of table `t`, without tombstones. */
  readonly rows: () => Promise<Row[]>;
}

/** A service with one connector, of all tables of a database of the same name. */
async function stage(id: string, schema: string, kafka: object = {}): Promise<Stage> {
  await using building = new AsyncDisposableStack();
  await server.createDatabase(id);
  await server.query(schema, id);
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-kafka-parking-"));
  building.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const environment = { MILLRACE_LOG_LEVEL: "warn" };
  const service = building.use(
    await ServiceProcess.start({ command: [command], dataDirectory, environment }),
  );
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${service.url}/api/v1/${path}`, {
      method,
      ...(body ? { body: JSON.stringify(body), headers: { "content-type": "application/json" } } : {}),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json().catch(() => null)) as unknown;
  };
  const { connection = {}, ...others } = kafka as { connection?: object };
  await call("POST", `connectors/${id}`, {
    id,
    source: {
      postgres: {
        connection: server.connection(id),
        replication_type: { logical_replication: {} },
        catalog: { default_action: "Exclude", schemas: [{ name: "public" }] },
      },
    },
    sink: {
      kafka: {
        connection: { brokers: cluster.bootstrap, config: { linger_ms: 5 }, ...connection },
        format: { native: {} },
        topic_options: { partitions: 3 },
        topic_name_template: `${id}.{table}`,
        on_exhausted: { park: {} },
        ...others,
      },
    },
  });
  const isStreaming = async () =>
    JSON.stringify(await call("GET", `connectors/${id}`)).includes('"realtime"');
  await waitFor("the stream", isStreaming, wait);
  const made = building.move();
  return {
    service,
    sql: (text) => server.query(text, id),
    call: (method, path, body) => call(method, `connectors/${id}${path}`, body),
    parked: async () => ((await call("GET", `connectors/${id}/parked?limit=1000`)) as ParkedList).parked,
    rows: async () => {
      const messages = await readTopic(cluster, `${id}.t`, { isolation: "read_committed" });
      return messages.flatMap(({ value }) => (value ? [JSON.parse(value.toString()) as Row] : []));
    },
    [Symbol.asyncDispose]: () => made.disposeAsync(),
  };
}

const table = "create table t (id int primary key, n int, v text)";
const noise = (bytes: number) =>
  `(select string_agg(md5(random()::text), '') from generate_series(1, ${bytes / 32}))`;
const seen = async ({ rows }: Stage) => (await rows()).map(({ id, n }) => `${id}:${n}`).toSorted();

describe("a message that is too large", () => {
  test("for the connector waits, and goes out once the limit is raised", async () => {
    await using at = await stage("limits", table, {
      connection: { brokers: cluster.bootstrap, config: { linger_ms: 5, message_max_bytes: 20_000 } },
    });
    await at.sql(`insert into t values (1, 1, ''), (2, 2, ${noise(64_000)}), (3, 3, '')`);
    await waitFor("the parked row", async () => (await at.parked()).length === 1, wait);
    await at.sql("update t set n = 20, v = '' where id = 2; update t set n = 30 where id = 3");
    await waitFor("the row behind it", async () => (await at.parked()).length === 2, wait);
    const [first, second] = await at.parked();
    expect(first).toMatchObject({ keys: [{ id: 2 }], cause: "refused", schema: "public", table: "t" });
    expect(first!.attempts[0]!.error).toContain("message_max_bytes is 20000");
    expect(second).toMatchObject({ keys: [{ id: 2 }], cause: "behind", attempts: [] });
    await waitFor("the others", async () => (await seen(at)).length === 3, wait);
    expect(await seen(at)).toEqual(["1:1", "3:3", "3:30"]);
    await at.call("POST", "/parked/retry", {});
    await waitFor("the attempt", async () => (await at.parked())[0]!.attempts.length === 2, wait);
    expect((await at.parked()).map(({ state }) => state)).toEqual(["Parked", "Parked"]);
    await at.call("PATCH", "", {
      sink: { kafka: { connection: { config: { message_max_bytes: 500_000 } } } },
    });
    await at.call("POST", "/parked/retry", {});
    await waitFor("the parking to be empty", async () => (await at.parked()).length === 0, wait);
    await waitFor("all rows", async () => (await seen(at)).length === 5, wait);
    expect((await at.rows()).filter(({ id }) => id === 2).map(({ n }) => n)).toEqual([2, 20]);
  });

  test.each(["native", "debezium"])(
    "for the topic waits, in %s form, and goes out once that takes it",
    async (format) => {
      const id = `topic_${format}`;
      await cluster.createTopic(`${id}.t`, { config: { "max.message.bytes": "20000" } });
      await using at = await stage(id, table, { format: { [format]: {} } });
      await at.sql(`insert into t values (1, 1, ''), (2, 2, ${noise(64_000)}), (3, 3, '')`);
      await waitFor("the parked row", async () => (await at.parked()).length === 1, wait);
      expect((await at.parked())[0]!.attempts[0]!.error).toContain("max.message.bytes");
      const count = async () => (await at.rows()).length;
      await waitFor("the others", async () => (await count()) === 2, wait);
      await at.call("POST", "/parked/retry", {});
      await waitFor("the attempt", async () => (await at.parked())[0]!.attempts.length === 2, wait);
      await cluster.configureTopic(`${id}.t`, { "max.message.bytes": "1000000" });
      await at.call("POST", "/parked/retry", {});
      await waitFor("the parking to be empty", async () => (await at.parked()).length === 0, wait);
      await waitFor("all rows", async () => (await count()) === 3, wait);
    },
  );

  test("for the topic still, does not keep others from being sent again", async () => {
    await cluster.createTopic("mixed.t", { config: { "max.message.bytes": "20000" } });
    await using at = await stage("mixed", table);
    await at.sql(`insert into t values (1, 1, ${noise(200_000)}), (2, 2, ${noise(60_000)}), (3, 3, '')`);
    await waitFor("the parked rows", async () => (await at.parked()).length === 2, wait);
    await at.sql("update t set n = 10, v = '' where id = 1");
    await waitFor("the row behind", async () => (await at.parked()).length === 3, wait);
    await cluster.configureTopic("mixed.t", { "max.message.bytes": "70000" });
    await at.call("POST", "/parked/retry", {});
    await waitFor("the smaller row", async () => (await at.parked()).length === 2, wait);
    expect(await seen(at)).toEqual(["2:2", "3:3"]);
    const isAsked = async () => (await at.parked()).some(({ state }) => state !== "Parked");
    await waitFor("the end of the retry", async () => !(await isAsked()), wait);
    const [first, second] = await at.parked();
    expect([first!.attempts.length, second!.attempts.length]).toEqual([2, 0]);
    await cluster.configureTopic("mixed.t", { "max.message.bytes": "1000000" });
    await at.call("POST", "/parked/retry", {});
    await waitFor("the parking to be empty", async () => (await at.parked()).length === 0, wait);
    await waitFor("all rows", async () => (await seen(at)).length === 4, wait);
    expect((await at.rows()).filter(({ id }) => id === 1).map(({ n }) => n)).toEqual([1, 10]);
  });

  test.each(["native", "debezium"])(
    "for the topic, in a copy beside the stream in %s form, is parked once, and the copy ends",
    async (format) => {
      const id = `copied_${format}`;
      await using at = await stage(id, table, { format: { [format]: {} } });
      await at.sql(`insert into t select i, i, case when i % 40 = 0 then ${noise(64_000)} else '' end
        from generate_series(1, 200) as i`);
      const count = async () => (await at.rows()).length;
      await waitFor("all rows", async () => (await count()) === 200, wait);
      await cluster.configureTopic(`${id}.t`, { "max.message.bytes": "20000" });
      const { id: task } = (await at.call("POST", "/tasks", {
        Snapshot: { schema: "public", name: "t" },
      })) as { id: string };
      const isDone = async () =>
        ((await at.call("GET", `/tasks/${task}`)) as { state: unknown }).state === "Done";
      await waitFor("the copy", isDone, wait);
      const parked = await at.parked();
      expect(parked.map(({ keys }) => keys)).toEqual([40, 80, 120, 160, 200].map((key) => [{ id: key }]));
      expect(parked.every(({ cause }) => cause === "refused")).toBe(true);
      await waitFor("the other rows", async () => (await count()) === 395, wait);
      await cluster.configureTopic(`${id}.t`, { "max.message.bytes": "1000000" });
      await at.call("POST", "/parked/retry", {});
      await waitFor("the parking to be empty", async () => (await at.parked()).length === 0, wait);
      await waitFor("each row twice", async () => (await count()) === 400, wait);
      await at.sql("update t set n = n + 100 where id = 40");
      await waitFor("a change of a row that was refused", async () => (await count()) === 401, wait);
    },
  );
});

test("a checkpoint that its topic does not take stops the run, and says why", async () => {
  await using at = await stage("small_checkpoints", table);
  const topic = "millrace.checkpoints";
  try {
    await cluster.configureTopic(topic, { "max.message.bytes": 10 });
    await at.sql("insert into t values (1, 1, '')");
    const failed = async () => JSON.stringify(await at.call("GET", "")).includes('"failed"');
    await waitFor("the end of the run", failed, wait);
    expect(JSON.stringify(await at.call("GET", ""))).toContain(`is larger than topic ${topic} takes`);
    expect(await at.parked()).toEqual([]);
    expect(await seen(at)).toEqual([]);
  } finally {
    await cluster.configureTopic(topic, { "max.message.bytes": 1_048_588 });
  }
});

test("rows of a schema that the registry refuses wait, and go out once it takes it", async () => {
  await using registry = new SchemaRegistryDouble();
  const avro = { schema_registry: { url: registry.url } };
  await using at = await stage("schemas", table, {
    format: { native: { format_config: { value_serde: { avro }, key_serde: { json: {} } } } },
  });
  const count = async () => (await readTopic(cluster, "schemas.t", { isolation: "read_committed" })).length;
  await at.sql("insert into t values (1, 1, '')");
  await waitFor("the first row", async () => (await count()) === 1, wait);
  registry.script = ({ method }) =>
    method === "POST"
      ? Response.json({ error_code: 409, message: "incompatible" }, { status: 409 })
      : undefined;
  await at.sql("alter table t add w int; insert into t values (2, 2, '', 2), (1000, 3, '', 3)");
  await waitFor("the parked rows", async () => (await at.parked()).length === 2, wait);
  expect((await at.parked())[0]!.attempts[0]!.error).toContain("incompatible");
  registry.script = () => undefined;
  await at.call("POST", "/parked/retry", {});
  await waitFor("the parking to be empty", async () => (await at.parked()).length === 0, wait);
  await at.sql("insert into t values (4, 4, '', 4)");
  await waitFor("all rows", async () => (await count()) === 4, wait);
  expect(await at.parked()).toEqual([]);
});

test("thousands of parked rows go out together", async () => {
  const limit = (bytes: number) => ({ connection: { config: { linger_ms: 5, message_max_bytes: bytes } } });
  const { connection } = limit(20_000);
  await using at = await stage("many", table, { connection: { brokers: cluster.bootstrap, ...connection } });
  const count = 3_000;
  await at.sql(`insert into t select i, i, repeat('x', 20000) from generate_series(1, ${count}) as i`);
  const size = async () => {
    const metrics = await (await fetch(`${at.service.url}/metrics`)).text();
    return Number(/^millrace_parked_messages\{.*\} (\d+)$/m.exec(metrics)?.[1]);
  };
  await waitFor("the parked rows", async () => (await size()) === count, wait);
  await at.call("PATCH", "", { sink: { kafka: limit(500_000) } });
  await at.call("POST", "/parked/retry", {});
  await waitFor("the parking to be empty", async () => (await size()) === 0, wait);
  expect(await seen(at)).toHaveLength(count);
});

test(`each change once, in the order of its key, under ${kills} kill -9`, async () => {
  const limit = (bytes: number) => ({ connection: { config: { message_max_bytes: bytes } } });
  const big = `alter table t add v text;
    create function large() returns trigger language plpgsql as $$ begin
      new.v := case when new.n % 67 = 0 then repeat(md5(new.n::text), 700) else '' end; return new;
    end $$;
    create trigger large before insert or update on t for each row execute function large()`;
  await using at = await stage("deaths", `${auditedSchema}; ${big}`, {
    connection: { brokers: cluster.bootstrap, config: { linger_ms: 5, message_max_bytes: 20_000 } },
    on_exhausted: { park: { max_messages: 100_000 } },
  });
  const over = new AbortController();
  await using client = await server.connect("deaths");
  const writing = writeUntil(over.signal, client);
  try {
    await waitFor("a parked row", async () => (await at.parked()).length > 0, wait);
    for (let kill = 0; kill < kills; kill++) {
      // Some retries find a limit that lets them through, and are killed amid it.
      const bytes = random(2) === 0 ? 20_000 : 500_000;
      await at.call("PATCH", "", { sink: { kafka: limit(bytes) } });
      await at.call("POST", "/parked/retry", {});
      await Bun.sleep(random(1_500));
      await at.service.kill();
      await at.service.launch();
    }
  } finally {
    over.abort();
    await writing;
  }
  await at.call("PATCH", "", { sink: { kafka: limit(500_000) } });
  const emptied = async () => {
    const left = await at.parked();
    if (left.some(({ state }) => state === "Parked")) await at.call("POST", "/parked/retry", {});
    return left.length === 0;
  };
  const wanted = (await at.sql("select * from audit.sent")) as SentRow[];
  const sent = async () =>
    (await at.rows()).map(({ id, n, _sm_deleted: deleted }): SentRow => ({ id, n, deleted }));
  const isThere = async () => (await emptied()) && (await sent()).length >= wanted.length;
  const patience = { timeoutMs: 120_000 + 3_000 * kills, intervalMs: 500 };
  await waitFor("all changes", isThere, patience).catch(() => undefined);
  expect(await at.parked()).toEqual([]);
  expect(inSourceOrder(await sent())).toEqual(inSourceOrder(wanted));
  const last = new Map<number, number>();
  const back = (await at.rows()).filter(({ id, _sm_version: version }) => {
    const isBack = (last.get(id) ?? 0) >= Number(version);
    last.set(id, Number(version));
    return isBack;
  });
  expect(back).toEqual([]);
});
