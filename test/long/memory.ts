// The memory of the service, measured from outside, while it carries a large transaction and a value of 100 MB. The full
// sizes are in test/size: `bun run test:size`. It takes a minute of both cores.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { createLarge, largeValue } from "../support/loads/large-row.ts";
import { SizeStage } from "../support/program/size-stage.ts";

setDefaultTimeout(180_000);

let stage: SizeStage;
beforeAll(async () => {
  stage = await SizeStage.start();
  await stage.write("create table rows (id bigint primary key, number int, label text, at timestamptz)");
  await createLarge(stage, "large", "bytea");
  // The most that a change brings: both values, in a stream that is text.
  await stage.write("alter table large replica identity full; create table kinds (id int, kind regtype)");
}, 120_000);
afterAll(() => stage[Symbol.asyncDispose]());

test.each(["postgres", "webhook"] as const)("a %s sink", async (kind) => {
  await stage.write(`truncate rows, large; insert into large (id, body) values (1, ${largeValue("bytea")})`);
  await stage.expectSmall(`copy of a value of 100 MB, ${kind}`, async () => {
    await stage.create(kind, kind);
    await stage.untilStreaming(kind);
  });
  const carry = (name: string, sql: string) =>
    stage.expectSmall(`${name}, ${kind}`, async () => {
      await stage.write(sql);
      await stage.untilCarried(kind);
    });
  await carry(
    "transaction of 150,000 rows",
    "insert into rows select i, i % 1000, md5(i::text), now() from generate_series(1, 150000) i",
  );
  await carry("a value of 100 MB that stays", "update large set number = 1");
  await carry("one that takes its place", "update large set body = '\\x78' || body");
  if (kind === "postgres") {
    const digest = "select id, number, md5(body) as md5 from large";
    expect(await stage.atSink(digest)).toEqual(await stage.write(digest));
  }
  await carry("one that goes", "delete from large");
  await stage.api.deleteConnector(kind);
  await pollUntil("the connector is gone", async () => !(await stage.api.exists(kind)), {
    timeoutMs: 30_000,
    intervalMs: 50,
  });
});
