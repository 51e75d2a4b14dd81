// Five million rows in one transaction, to each kind of sink and in each form: `bun run test:size`.

import { expect, test } from "bun:test";
import { type SinkKind, SizeStage } from "../support/program/size-stage.ts";

const rows = Number(process.env.MILLRACE_SIZE_ROWS ?? 5_000_000);

const steps = [
  [
    "insert",
    `insert into bench select i, i % 1000, md5(i::text), timestamptz '2025-01-01' + i * interval '1 ms', i / 7.0,
       md5(i::text)::uuid, i % 2 = 0 from generate_series(1, ${rows}) i`,
  ],
  ["update", "update bench set number = number + 1"],
  ["delete", "delete from bench"],
] as const;

test.each([
  ["postgres", "binary"],
  ["postgres", "text"],
  ["webhook", "text"],
] as const)(
  "one transaction to a %s sink as %s",
  async (kind: SinkKind, form) => {
    await using stage = await SizeStage.start();
    await stage.write(
      "create table bench (id bigint primary key, number int, label text, at timestamptz, amount numeric, token uuid, flag bool)",
    );
    // A type whose bytes mean something on its own server only: all that the stream brings is text.
    if (form === "text") await stage.write("create table kinds (id int primary key, kind regtype)");
    await stage.create("c", kind);
    await stage.untilStreaming("c");
    for (const [name, sql] of steps) {
      await stage.expectSmall(`${name} of ${rows} rows, ${kind}, ${form}`, async () => {
        await stage.write(sql);
        await stage.untilCarried(kind);
      });
      if (kind === "webhook") continue;
      const [count] = await stage.atSink<{ sum: string }>(
        "select coalesce(sum(number + id), 0)::text as sum from bench",
      );
      expect([count]).toEqual(
        (await stage.write("select coalesce(sum(number + id), 0)::text as sum from bench")) as never,
      );
    }
  },
  1_800_000,
);
