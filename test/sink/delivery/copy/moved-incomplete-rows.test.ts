// Rows that wait for their own copy, as the stream brought them in part, and get another key before they are copied: the values that the
// stream leaves out go with them at the source alone.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { SinkGround } from "../../../support/contract/bench.ts";
import { chunkOf, missingOf, openOrBegin } from "../../../support/contract/carrying.ts";
import { accounts, sorted, update } from "../../../support/contract/history.ts";
import { begun, Streaming } from "../../../support/contract/streaming.ts";
import { webhookKind } from "../../../support/contract/webhook.ts";
import { type FixtureChange, transaction, unchanged } from "../../../support/rows/batch-fixture.ts";

let ground: SinkGround;
beforeAll(async () => {
  ground = await webhookKind.start();
});
afterAll(() => ground[Symbol.asyncDispose]());

const move = (from: string, to: string): FixtureChange => ({
  ...({ kind: "update", relation: accounts.relation, oldIsKey: true } as const),
  before: [from, null],
  after: [to, unchanged],
});
const transactions = [
  transaction(1, [update(100, "whole")]),
  transaction(2, [update(102, unchanged)]),
  transaction(3, [move("102", "202")]),
  transaction(4, [move("202", "302")]),
];

const keysOf = async (stream: Streaming) =>
  (await stream.incomplete()).flatMap(({ keys }) => keys).toSorted();

async function takeRows(stream: Streaming, keys: readonly (readonly string[])[]): Promise<void> {
  const rows = stream.rows(4).filter(({ id }) => keys.flat().includes(String(id)));
  const part = { kind: "rows", keys } as const;
  await stream.sink.copies.takeRows(chunkOf(accounts, rows, { part, behind: 4 }));
}

test.each([
  ["the run goes on", false],
  ["the service is killed each time", true],
])("are complete in the end where %s", async (_, isKilled) => {
  await using bench = await ground.bench();
  let life = await bench.live();
  let { stream, strays } = await begun(webhookKind, life, "merge", transactions);
  const goOn = async () => {
    await life.sink.flush();
    if (!isKilled) return;
    await life.kill();
    life = await bench.live();
    const { written } = stream;
    stream = new Streaming(life, await openOrBegin(life.sink), transactions);
    await missingOf(life.sink);
    await stream.write(written);
  };
  const copy = await stream.begin("merge");
  await stream.start(copy, false);
  await stream.write(2);
  await stream.take(copy, 1);
  await stream.settle(copy);
  expect(await copy.finish()).toBe("incomplete");
  await copy[Symbol.asyncDispose]();
  await goOn();
  // Before it is asked for.
  await stream.write(3);
  const first = await keysOf(stream);
  expect(first).toEqual([["102"], ["202"]]);
  // Where its copy is as of, it is under neither of the keys.
  await takeRows(stream, first);
  expect(await keysOf(stream)).toEqual([]);
  await goOn();
  await stream.write(4);
  const second = await keysOf(stream);
  expect(second).toContainEqual(["302"]);
  await takeRows(stream, second);
  await life.sink.flush();
  expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(4), ...strays]));
  expect(bench.contradictions()).toEqual([]);
  await life[Symbol.asyncDispose]();
});
