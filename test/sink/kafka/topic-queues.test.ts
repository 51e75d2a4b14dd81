// A partition has one queue in a session, however many ask for it at once: two would both count its messages from 0. And thousands of tables may
// share a topic.

import { expect, test } from "bun:test";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { TopicQueues } from "../../../src/sink/kafka/topic-queues.ts";
import { sampleConfig, sampleRequest } from "../../support/api/sample-connector.ts";
import { usedMs } from "../../support/processor-time.ts";
import { relation } from "../../support/rows/batch-fixture.ts";

const kafka = { connection: { brokers: ["127.0.0.1:1"] }, format: { native: {} }, topic_options: {} };
const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
const orders = relation("orders", [["id", 20, "bigint"]]);

test("all who ask while a topic is made get the same queues", async () => {
  const answers: (() => void)[] = [];
  const topics = {
    ensure: (asked: readonly string[]) =>
      new Promise((resolve) => answers.push(() => resolve(new Map(asked.map((topic) => [topic, 3]))))),
  };
  const queues = new TopicQueues(settings, { topics } as never);
  const first = queues.ofTable(orders);
  const second = queues.ofTable(orders);
  const prepared = queues.prepare([orders]);
  answers[0]!();
  expect((await first).queues).toHaveLength(3);
  for (const answer of answers) answer();
  await prepared;
  expect((await second).queues).toBe((await first).queues);
  expect((await queues.ofTable(orders)).queues).toBe((await first).queues);
});

test("ten thousand tables share a topic, and one of them that must not is refused", async () => {
  const topics = { ensure: async (asked: readonly string[]) => new Map(asked.map((topic) => [topic, 3])) };
  const of = (topic_name_template: string) => {
    const config = { ...settings.config, topic_name_template };
    return new TopicQueues({ ...settings, config }, { topics } as never);
  };
  const tables = Array.from({ length: 10_000 }, (_, i) => relation(`t${i}`, [["id", 20, "bigint"]]));
  const began = usedMs();
  await of("all").prepare(tables);
  expect(usedMs() - began).toBeLessThan(1_000);
  const [one, other] = ["a b", "a?b"].map((schema, id) =>
    relation("t", [["id", 20, "bigint"]], { schema, id }),
  );
  const apart = of("{schema}");
  await apart.prepare([...tables, one!]);
  await expect(apart.prepare([...tables, one!, other!])).rejects.toThrow(
    'Tables "a b".t and "a?b".t would share topic a_b',
  );
  // Once the first is dropped, the topic is the other's.
  await apart.prepare([...tables, other!]);
  expect((await apart.ofTable(other!)).topic).toContain("a_b");
  // The one was renamed, and is alone.
  await apart.prepare([{ ...one!, schema: "a_b" }]);
});
