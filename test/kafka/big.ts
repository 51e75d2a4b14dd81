// What is big: tables by the thousand, a broker that is slow, and one whose disk is full.

import { describe, expect, test } from "bun:test";
import type { JsonBody } from "../../src/demo/api-client.ts";
import { readTopics } from "../support/kafka/kafka-reader.ts";
import { KafkaStage, type StateKind } from "../support/kafka/kafka-stage.ts";
import { SlowLink } from "../support/servers/slow-link.ts";

const each = (count: number, sql: (i: number) => string) => Array.from({ length: count }, (_, i) => sql(i));

/** A hundred at a time: a transaction holds a lock on each table. */
async function writeAll(stage: KafkaStage, statements: readonly string[]): Promise<void> {
  for (let at = 0; at < statements.length; at += 100)
    await stage.write(statements.slice(at, at + 100).join("; "));
}

describe("thousands of tables", () => {
  /** As for thousands of tables to other sinks: what is known of a table takes some kilobytes in each thread. */
  const memoryLimitMegabytes = 512;
  const tables = Number(process.env.MILLRACE_TOPICS ?? 5_000);

  test(`${tables} tables, a topic each`, async () => {
    await using stage = await KafkaStage.start({
      cluster: { heapMegabytes: 1_024, config: { "log.index.size.max.bytes": 65_536 } },
    });
    await writeAll(
      stage,
      each(
        tables,
        (i) =>
          `create table t${i} (id int primary key, v text, at timestamptz default now()); insert into t${i} (id, v) values (1, 'x'), (2, 'y')`,
      ),
    );
    await stage.expectSmall(`topics and copies of ${tables} tables`, memoryLimitMegabytes, async () => {
      await stage.create();
      await stage.untilStreaming();
    });
    await stage.expectSmall(`a change in each of ${tables} tables`, memoryLimitMegabytes, async () => {
      await writeAll(
        stage,
        each(tables, (i) => `update t${i} set v = 'z' where id = 1`),
      );
      await stage.untilCarried("a change in each");
    });
    await stage.expectSmall(`a transaction of ${tables} tables`, memoryLimitMegabytes, async () => {
      await stage.write(
        `do $$ begin for i in 0..${tables - 1} loop execute format('delete from t%s where id = 2', i); end loop; end $$`,
      );
      await stage.untilCarried("a transaction of all tables");
    });
    await stage.expectSmall(`stop and start with ${tables} tables`, memoryLimitMegabytes, async () => {
      await stage.api.command("big", "Stop");
      await writeAll(
        stage,
        each(tables, (i) => `insert into t${i} (id, v) values (3, 'new')`),
      );
      await stage.api.command("big", "Start");
      await stage.untilStreaming();
      await stage.untilCarried("all after a start");
    });
    const topics = each(tables, (i) => `millrace.public.t${i}`);
    const told = new Map(topics.map((topic) => [topic, [] as string[]]));
    await readTopics(stage.cluster, topics, { isolation: "read_committed" }, (topic, { key, value }) => {
      const row = value && (JSON.parse(String(value)) as { v: string; _sm_deleted: boolean });
      told.get(topic)!.push(`${key} ${row === null ? "tombstone" : row._sm_deleted ? "deleted" : row.v}`);
    });
    const expected = [
      '{"id":1} x',
      '{"id":2} y',
      '{"id":1} z',
      '{"id":2} deleted',
      '{"id":2} tombstone',
      '{"id":3} new',
    ];
    const wrong = [...told].filter(([, messages]) => messages.join() !== expected.join());
    expect(wrong.slice(0, 5)).toEqual([]);
  }, 1_800_000);
});

/** Of ids, each of which is to be there once. */
async function expectEach(stage: KafkaStage, topic: string, rows: number): Promise<void> {
  const seen = new Uint8Array(rows + 1);
  await readTopics(stage.cluster, [topic], { isolation: "read_committed" }, (_, { key }) => {
    seen[(JSON.parse(String(key)) as { id: number }).id]!++;
  });
  const wrong = Array.from(seen.keys()).filter((id) => seen[id] !== (id === 0 ? 0 : 1));
  expect(wrong.slice(0, 10).map((id) => `${id} is there ${seen[id]} times`)).toEqual([]);
}

describe("a slow broker", () => {
  const rows = Number(process.env.MILLRACE_SLOW_ROWS ?? 2_000_000);
  const slowForMs = Number(process.env.MILLRACE_SLOW_SECONDS ?? 150) * 1_000;
  const bytesPerSecond = 1_000_000;
  const topic = "millrace.public.bench";
  const createTable = `create table bench (id bigint primary key, number int, label text, at timestamptz, amount numeric, token uuid, flag bool);
`;

  /** While the brake is on the source writes all it can. Memory stays small, the session stays, and gets no more than can be sent. */
  async function slowly(
    stage: KafkaStage,
    name: string,
    release: () => Promise<void>,
    megabytes = 256,
  ): Promise<void> {
    await stage.create();
    await stage.untilStreaming();
    await stage.expectSmall(`${name}: braked`, megabytes, async () => {
      const [begin] = await stage.write<{ lsn: string }>(
        "select (pg_current_wal_lsn() - '0/0')::text as lsn",
      );
      for (let id = 1; id <= rows; id += 1_000)
        await stage.write(
          `insert into bench select i, i % 1000, md5(i::text), now(), i / 7.0, gen_random_uuid(), i % 2 = 0 from generate_series(${id}, ${id + 999}) i`,
        );
      const [end] = await stage.write<{ lsn: string }>("select (pg_current_wal_lsn() - '0/0')::text as lsn");
      const first = await stage.sent();
      expect(first).not.toBeNull();
      await Bun.sleep(slowForMs);
      const last = await stage.sent();
      const told = (lsn: bigint) => `${Number(((lsn - BigInt(begin!.lsn)) * 1000n) / 1_048_576n) / 1000} MB`;
      console.log(
        `${name}: written ${told(BigInt(end!.lsn))}, sent ${told(first!.sent)}, then ${told(last!.sent)}; durable ${told(last!.durable)}; said ${[...stage.reasons].join(" | ")}`,
      );
      expect(last!.pid, "one session all the time").toBe(first!.pid);
      expect(last!.sent < BigInt(end!.lsn), "what is written is not sent").toBe(true);
    });
    await release();
    await stage.expectSmall(`${name}: released`, megabytes, () => stage.untilCarried("all of it"));
    await expectEach(stage, topic, rows);
  }

  test.each(["server", "embedded"] as const)(
    "a network of 1 MB/s, the state %s",
    async (state: StateKind) => {
      await using stage = await KafkaStage.start({
        cluster: { listeners: ["PROXIED"] },
        listener: "PROXIED",
        state,
      });
      const proxy = stage.cluster.proxies[0]!;
      await using link = await SlowLink.start(proxy.targetPort, bytesPerSecond);
      proxy.targetPort = link.port;
      await stage.write(createTable);
      const release = async () => {
        link.bytesPerSecond = null;
      };
      // The embedded state is a database of its own, in this process.
      await slowly(stage, `1 MB/s, ${state}`, release, state === "server" ? 256 : 384);
    },
    900_000,
  );

  test("a quota of 1 MB/s", async () => {
    await using stage = await KafkaStage.start();
    await stage.cluster.limitProducers(bytesPerSecond);
    await stage.write(createTable);
    await slowly(stage, "quota", () => stage.cluster.limitProducers(null));
  }, 900_000);
});

describe("a broker whose disk is full", () => {
  const tables = ["a", "b", "c", "d"];

  /** The source writes on while the disk is full, until `isSaid`; when there is room and all brokers run, everything comes. */
  async function fillUp(
    stage: KafkaStage,
    isSaid: RegExp,
    mend: () => Promise<void>,
    config: JsonBody = {},
  ): Promise<void> {
    for (const table of tables) await stage.write(`create table ${table} (id int primary key, pad text)`);
    await stage.create({ config });
    await stage.untilStreaming();
    let rows = 0;
    const write = async () => {
      for (const table of tables)
        await stage.write(
          `insert into ${table} select i, encode(sha512(i::text::bytea), 'hex') from generate_series(${rows + 1}, ${rows + 500}) i`,
        );
      rows += 500;
    };
    await write();
    await stage.untilCarried("what came before");
    await stage.cluster.smallDisk!.fill();
    const begunMs = performance.now();
    while (![...stage.reasons].some((reason) => isSaid.test(reason))) {
      if (performance.now() - begunMs > 90_000)
        throw new Error(`nothing like ${isSaid} was said: ${[...stage.reasons].join("\n")}`);
      await write();
      await Bun.sleep(100);
    }
    console.log(`said: ${[...stage.reasons].join("\n      ")}`);
    await mend();
    const mendedMs = performance.now();
    await stage.untilCarried("everything", 120_000);
    console.log(
      `${rows} rows of each table; carried ${Math.round(performance.now() - mendedMs)} ms after there was room`,
    );
    for (const table of tables) await expectEach(stage, `millrace.public.${table}`, rows);
  }

  /** There is room again, and the broker is started again. */
  async function mend({ cluster }: KafkaStage): Promise<void> {
    await cluster.smallDisk!.makeRoom();
    await cluster.kill(1);
    await cluster.restart(1);
  }

  test("its only log directory: it dies", async () => {
    await using stage = await KafkaStage.start({ cluster: { smallDisk: { node: 1, megabytes: 64 } } });
    await fillUp(stage, /Is the broker running\? .*make room/, () => mend(stage));
  }, 300_000);

  test("one of two log directories: it lives, without its partitions", async () => {
    await using stage = await KafkaStage.start({
      cluster: { smallDisk: { node: 1, megabytes: 64, isSecond: true } },
    });
    await fillUp(stage, /KAFKA_STORAGE_ERROR.*make room/, () => mend(stage));
  }, 300_000);

  test("one of two log directories, for longer than a transaction may take", async () => {
    await using stage = await KafkaStage.start({
      cluster: { smallDisk: { node: 1, megabytes: 64, isSecond: true } },
    });
    await fillUp(
      stage,
      /KAFKA_STORAGE_ERROR.*make room/,
      async () => {
        await Bun.sleep(30_000);
        await mend(stage);
      },
      { transactions: { enabled: true, timeout_ms: 3_000 } },
    );
  }, 300_000);

  test("one of three brokers: others lead", async () => {
    await using stage = await KafkaStage.start({
      cluster: { brokers: 3, smallDisk: { node: 1, megabytes: 64 }, config: { "min.insync.replicas": 2 } },
    });
    for (const table of tables) await stage.write(`create table ${table} (id int primary key, pad text)`);
    await stage.create();
    await stage.untilStreaming();
    const insert = async (from: number) => {
      for (const table of tables)
        await stage.write(
          `insert into ${table} select i, repeat('x', 100) from generate_series(${from}, ${from + 499}) i`,
        );
    };
    await insert(1);
    await stage.untilCarried("what came before");
    await stage.cluster.smallDisk!.fill();
    const begunMs = performance.now();
    for (let from = 501; from < 5_001; from += 500) await insert(from);
    await stage.untilCarried("without the broker that is full", 60_000);
    console.log(
      `without one of three: ${Math.round(performance.now() - begunMs)} ms; said ${[...stage.reasons].join("\n      ")}`,
    );
    await mend(stage);
    await insert(5_001);
    await stage.untilCarried("with all brokers", 60_000);
    for (const table of tables) await expectEach(stage, `millrace.public.${table}`, 5_500);
  }, 300_000);
});
