// Rows of copies among parked changes of their keys: they stand where the stream was when the copy began, whatever point they are as of.
// Without a stream they stand in the order of the copies.

import { expect, test } from "bun:test";
import { emptyBatch } from "../../../../src/change/batch-builder.ts";
import { copiesLogPrefix } from "../../../../src/change/checkpoint.ts";
import { lastLsn, lsn } from "../../../../src/change/lsn.ts";
import type { CopyMode } from "../../../../src/sink/copy-sink.ts";
import type { Sink } from "../../../../src/sink/sink.ts";
import { chunkOf, copyTable, finishWaiting, never } from "../../../support/contract/carrying.ts";
import type { ContractRow } from "../../../support/contract/history.ts";
import { tableShape, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { insert, log, ParkingBench, refuses, update, users } from "../../../support/webhook/parking-bench.ts";

test("a row of a copy waits behind earlier changes and copies of its key, and later ones wait behind it", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life({ batch: { max_batch_size: 1 } });
  await write([transaction(1, [insert(2, "bad"), insert(3)])]);
  await sink.flush();
  // As of a point that the stream has not come to: its changes from before that come later.
  const copy = (v: string, mode: CopyMode = "merge") =>
    copyTable(
      sink,
      tableShape(users),
      [1, 2].map((id) => ({ id, v })),
      { mode, behind: 9 },
    );
  await copy("bad copy");
  await copy("copied again");
  await write([transaction(2, [update(1, "changed"), insert(4)])]);
  await sink.flush();
  await copy("copied at last");
  const keys = (cause: string) =>
    at.parked.filter(({ message }) => message.cause === cause).map(({ message }) => message.keys);
  const [one, two] = ['[{"id":1}]', '[{"id":2}]'];
  expect([keys("refused").toSorted(), keys("behind").toSorted()]).toEqual([
    [one, two],
    [one, one, one, two, two, two],
  ]);
  at.receiver.script = () => 200;
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  const of = (id: number) => at.rows.filter((row) => String(row).startsWith(`${id}`));
  expect(of(1)).toEqual(["bad copy", "copied again", "changed", "copied at last"].map((v) => `1 ${v}`));
  expect(of(2)).toEqual(["bad", "bad copy", "copied again", "copied at last"].map((v) => `2 ${v}`));
});

test("a copy that begins anew waits behind the row that it had before, also if the change before that comes no more", async () => {
  await using at = await ParkingBench.start(({ body }) =>
    body.includes("bad") ? 422 : body.includes("slow") ? 503 : 200,
  );
  const life = { batch: { max_batch_size: 1 }, retry: { initial_backoff_ms: 20, max_backoff_ms: 20 } };
  const slow = transaction(1, [insert(7, "slow")]);
  const leaves = transaction(2, [
    { kind: "insert", relation: log, after: ["of a table that leaves the selection"] },
  ]);
  const copyOf = async (sink: Sink, v: string, behind: number) => {
    const copy = await sink.copies.begin(tableShape(users), "merge", "runs", never);
    await copy.start(false);
    // It ends when the stream has passed its point, or with the session.
    void copy.take(chunkOf(tableShape(users), [{ id: 1, v }], { behind })).catch(() => undefined);
  };
  const first = await at.life(life);
  await first.write([slow, leaves]);
  await copyOf(first.sink, "bad", 2);
  await waitFor("the parked row", () => at.parked.length === 1);
  await first.rig.kill();

  at.receiver.script = ({ body }) => (body.includes("slow") ? 503 : 200);
  const next = await at.life(life);
  await next.write([slow]);
  await next.sink.write(emptyBatch("text", lsn(0x1000000n + 0x1000n)));
  await copyOf(next.sink, "newer", 5);
  await waitFor("the row that waits", () => at.parked.length === 2);
  at.receiver.script = () => 200;
  await next.sink.flush();
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.rows.filter((row) => String(row).startsWith("1 "))).toEqual(["1 bad", "1 newer"]);
});

test("a parked row of a copy is sent once the stream has passed what it comes after, and not before", async () => {
  await using at = await ParkingBench.start(({ body }) =>
    body.includes("bad") ? 422 : body.includes("slow") ? 503 : 200,
  );
  const life = { batch: { max_batch_size: 1 }, retry: { initial_backoff_ms: 20, max_backoff_ms: 20 } };
  const first = await at.life(life);
  await first.write([transaction(1, [insert(1, "first")])]);
  await first.sink.flush();
  await copyTable(first.sink, tableShape(users), [{ id: 1, v: "bad" }], { mode: "merge", behind: 9 });
  const rest = transaction(2, [insert(7, "slow"), update(1, "later")]);
  await first.write([rest]);
  await waitFor("the parked messages", () => at.parked.length === 2);
  await first.rig.kill();

  at.receiver.script = ({ body }) => (body.includes("slow") ? 503 : 200);
  at.store.parking.ask();
  const next = await at.life(life);
  await next.write([rest]);
  // What came before the copy is passed. The change behind it is not, as the slow one before that is not.
  await waitFor("the row of the copy", () => at.parked.length === 1);
  expect(at.rows).toEqual(["1 first", "1 bad"]);
  at.receiver.script = () => 200;
  await next.sink.flush();
  await waitFor("the change", () => at.parked.length === 0);
  expect(at.rows.filter((row) => String(row).startsWith("1"))).toEqual(["1 first", "1 bad", "1 later"]);
});

// Earlier versions took the LSN of the round for the place of its rows.
test.each([
  ["", (place: bigint) => place],
  [" that an earlier version parked", (place: bigint) => place - ((lastLsn - 0x5a00000000n) << 93n)],
])(
  "a row waits behind that of an earlier round%s where the source's LSN is lower by then, and both are sent later",
  async (_, placed) => {
    await using at = await ParkingBench.start(refuses("bad"));
    const round = async (number: bigint, resumeLsn: bigint, rows: readonly ContractRow[]) => {
      const { rig, sink } = await at.life();
      const place = { lsn: lsn(resumeLsn), timeUs: 1_764_000_000_000_000n + number };
      const log = `${copiesLogPrefix}1/5 at x`;
      await sink.forget(false);
      await sink.begin({ resumeLsn: place.lsn, partial: null, lastVersion: place.timeUs, log });
      await using copy = await sink.copies.begin(tableShape(users), "initial", "waits", never);
      await copy.start(false);
      await copy.take({ ...chunkOf(tableShape(users), rows), ...place });
      await finishWaiting(copy);
      return rig;
    };
    await (await round(1n, 0x5a00000000n, [{ id: 1, v: "bad" }])).kill();
    for (const { message } of at.parked) Object.assign(message, { places: message.places.map(placed) });
    await (await round(2n, 0x3000000n, [{ id: 1, v: "newer" }])).kill();
    expect([at.rows, at.parked.length]).toEqual([[], 2]);

    at.receiver.script = () => 200;
    at.store.parking.ask();
    await round(3n, 0x3001000n, [{ id: 2, v: "other" }]);
    await waitFor("the parking to be empty", () => at.parked.length === 0);
    expect(at.rows.filter((row) => String(row).startsWith("1 "))).toEqual(["1 bad", "1 newer"]);
  },
);
