// Values of 100 MB in copy and stream, to each kind of sink and in each form; with a sink that hangs, and a service that dies
// meanwhile: `bun run test:size`.

import { expect, test } from "bun:test";
import type { JsonBody } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { createLarge, largeChanges, largeTypes, largeValue } from "../support/loads/large-row.ts";
import { type SinkKind, SizeStage } from "../support/program/size-stage.ts";

const forms = [
  ["postgres", "binary"],
  ["postgres", "text"],
  ["webhook", "text"],
] as const;
/** A webhook whose rows hold the old row beside the new one. */
const withOldRows = { format: { debezium: {} } };
const cases = forms.flatMap(([kind, form]) => largeTypes.map((type) => [type, kind, form] as const));

async function staged(
  kind: SinkKind,
  form: "binary" | "text",
  before: (stage: SizeStage) => Promise<void>,
  webhook: JsonBody = {},
): Promise<SizeStage> {
  await using building = new AsyncDisposableStack();
  const stage = building.use(await SizeStage.start());
  if (form === "text") await stage.write("create table kinds (id int primary key, kind regtype)");
  await before(stage);
  await stage.expectSmall(`copy, ${kind}, ${form}`, async () => {
    await stage.create("c", kind, undefined, stage.sinkConfig(kind, webhook));
    await stage.untilStreaming("c");
  });
  building.move();
  return stage;
}

async function expectEqual(stage: SizeStage, kind: SinkKind): Promise<void> {
  if (kind === "webhook") return;
  const sql = "select id, number, md5(body) from large order by id";
  expect(await stage.atSink(sql)).toEqual(await stage.write(sql));
}

const streamed = [
  ...cases.map((each) => [...each, {}] as const),
  ...largeTypes.map((type) => [type, "webhook", "text", withOldRows] as const),
];

test.each(streamed)(
  "a value of %s to a %s sink as %s %j",
  async (type, kind, form, webhook) => {
    await using stage = await staged(kind, form, (stage) => createLarge(stage, "large", type), webhook);
    for (const [name, sql] of largeChanges("large", type)) {
      await stage.expectSmall(`${name}: ${type}, ${kind}, ${form}`, async () => {
        await stage.write(sql);
        await stage.untilCarried(kind);
      });
      await expectEqual(stage, kind);
    }
  },
  900_000,
);

test.each(cases)(
  "a copy with values of %s to a %s sink as %s",
  async (type, kind, form) => {
    await using stage = await staged(kind, form, async (stage) => {
      for (const table of ["large", "beside"]) {
        await createLarge(stage, table, type);
        await stage.write(
          `insert into ${table} (id, body) select n, ${largeValue(type)} from generate_series(1, 2) n`,
        );
      }
    });
    await expectEqual(stage, kind);
  },
  900_000,
);

test.each(largeTypes)(
  "a Postgres sink that hangs meanwhile, and a service that dies: %s",
  async (type) => {
    await using stage = await staged("postgres", "binary", (stage) => createLarge(stage, "large", type));
    const insert = (id: number) => `insert into large (id, body) values (${id}, ${largeValue(type)})`;
    await stage.expectSmall(`a sink that hangs, ${type}`, async () => {
      await stage.write(`${insert(1)}; ${insert(2)}; ${insert(3)}`);
      await stage.atSink("begin; lock table large in access exclusive mode; select pg_sleep(10); commit");
      await stage.untilCarried("postgres");
    });
    await stage.write(`begin; ${insert(4)}; ${insert(5)}; ${insert(6)}; commit`);
    await pollUntil("it is on its way", () => isCopying(stage), { timeoutMs: 30_000, intervalMs: 5 });
    await stage.service.kill();
    await stage.service.launch();
    await stage.expectSmall(`after its death, ${type}`, () => stage.untilCarried("postgres"));
    await expectEqual(stage, "postgres");
  },
  600_000,
);

test.each(largeTypes)(
  "a receiver that hangs meanwhile: %s",
  async (type) => {
    await using stage = await SizeStage.start();
    await createLarge(stage, "large", type);
    const gate = Promise.withResolvers<void>();
    const lengths: number[] = [];
    using receiver = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      maxRequestBodySize: 1024 * 1024 * 1024,
      idleTimeout: 0,
      async fetch(request) {
        await gate.promise;
        let length = 0;
        for await (const chunk of request.body ?? []) length += chunk.length;
        lengths.push(length);
        return new Response(null, { status: 204 });
      },
    });
    const sink = {
      webhook: { url: receiver.url.href, path_template: "{table}", request_timeout_ms: 120_000 },
    };
    await stage.create("c", "webhook", ["large"], sink);
    await stage.untilStreaming("c");
    await stage.expectSmall(`a receiver that hangs, ${type}`, async () => {
      for (const id of [1, 2, 3])
        await stage.write(`insert into large (id, body) values (${id}, ${largeValue(type)})`);
      await Bun.sleep(10_000);
      gate.resolve();
      await pollUntil("all three came", () => lengths.length === 3, { timeoutMs: 120_000, intervalMs: 50 });
    });
    expect(Math.min(...lengths)).toBeGreaterThan(100 * 1024 * 1024);
  },
  300_000,
);

async function isCopying(stage: SizeStage): Promise<boolean> {
  const rows = await stage.atSink("select from pg_stat_progress_copy where bytes_processed > 1000000");
  return rows.length > 0;
}
