// What is big: tables by the thousand, a broker that is slow, and one whose disk is full.

import { describe, expect, test } from "bun:test";
import { readTopics } from "../support/kafka/kafka-reader.ts";
import { KafkaStage } from "../support/kafka/kafka-stage.ts";

const each = (count: number, sql: (i: number) => string) => Array.from({ length: count }, (_, i) => sql(i));

/** A hundred at a time: a transaction holds a lock on each table. */
async function writeAll(stage: KafkaStage, statements: readonly string[]): Promise<void> {
  for (let at = 0; at < statements.length; at += 100)
    await stage.write(statements.slice(at, at + 100).join("; "));
}

describe("thousands of tables", () => {
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
    await stage.expectSmall(`topics and copies of ${tables} tables`, 1_000, async () => {
      await stage.create();
      await stage.untilStreaming();
    });
    await stage.expectSmall(`a change in each of ${tables} tables`, 1_000, async () => {
      await writeAll(
        stage,
        each(tables, (i) => `update t${i} set v = 'z' where id = 1`),
      );
      await stage.untilCarried("a change in each");
    });
    await stage.expectSmall(`a transaction of ${tables} tables`, 1_000, async () => {
      await stage.write(
        `do $$ begin for i in 0..${tables - 1} loop execute format('delete from t%s where id = 2', i); end loop; end $$`,
      );
      await stage.untilCarried("a transaction of all tables");
    });
    await stage.expectSmall(`stop and start with ${tables} tables`, 1_000, async () => {
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
