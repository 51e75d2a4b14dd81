// What became of each request is on record, through the real worker: delivered, tried again, refused, cut, parked, sent again.

import { afterEach, expect, test } from "bun:test";
import type { Checkpoint } from "../../../../src/change/checkpoint.ts";
import { formatLsn, lsn } from "../../../../src/change/lsn.ts";
import type { WebhookSinkRequest } from "../../../../src/connector/config/webhook-config.ts";
import { textsDigest } from "../../../../src/sink/delivery/receipts/key-digest.ts";
import { commitOf, operationOf, rowsWith } from "../../../../src/sink/delivery/receipts/receipt-rows.ts";
import { parseRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import {
  batches,
  type FixtureTransaction,
  relation,
  transaction,
} from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../../support/webhook/webhook-rig.ts";

const users = relation("users", [
  ["id", 20, "bigint"],
  ["name", 25, "text"],
]);
const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const insert = (id: number, name = `u${id}`) =>
  ({ kind: "insert", relation: users, after: [String(id), name] }) as const;
const moved = (from: number, to: number) =>
  ({
    kind: "update",
    relation: users,
    before: [String(from), null],
    oldIsKey: true,
    after: [String(to), "m"],
  }) as const;
const refuses =
  (word: string, status = 422): ReceiverScript =>
  ({ body }) =>
    body.includes(word) ? status : 200;

class Stage {
  readonly store = new RecordStore();
  receiver!: WebhookReceiver;
  failure: string | null = null;

  static async open(script: ReceiverScript = () => 200): Promise<Stage> {
    const stage = new Stage();
    stage.receiver = await WebhookReceiver.start({ script });
    owned.push(stage.receiver);
    return stage;
  }

  async life(change: Partial<WebhookSinkRequest> = {}, hours = 24) {
    const webhook = { retry: { initial_backoff_ms: 1, max_backoff_ms: 2 }, ...change };
    const limits = { receipts_hours: hours };
    const rig = await WebhookRig.start(webhookConnector(this.receiver.url, webhook, { limits }), this.store);
    owned.push(rig);
    const sink = rig.sink({
      failed: ({ code }) => {
        this.failure = code;
      },
    });
    const checkpoint = await sink.open();
    if (!checkpoint) await sink.begin(start);
    const write = async (transactions: readonly FixtureTransaction[]) => {
      const from = checkpoint ?? start;
      for (const batch of batches(transactions, { from })) await sink.write(batch);
    };
    return { rig, sink, write };
  }

  /** Of row `id`, oldest first. */
  of(id: number) {
    const digest = textsDigest([String(id)]);
    return this.store.receipts.list().flatMap(({ rows, ...facts }) =>
      rowsWith(rows, digest).map((row) => {
        const commit = commitOf(rows, row);
        const op = operationOf(rows.lists.marks[rows.first + row]!);
        return { ...facts, op, lsn: commit && formatLsn(commit.lsn) };
      }),
    );
  }

  outcomes(id: number): string[] {
    return this.of(id).map(({ outcome, status, attempts, op }) => `${outcome} ${status} ${attempts} ${op}`);
  }
}

test("each delivered request has a receipt with its key, its answer and where its rows were committed", async () => {
  const stage = await Stage.open();
  const { sink, write } = await stage.life();
  await write([transaction(1, [insert(1), insert(2)]), transaction(2, [insert(3), moved(1, 9)])]);
  await sink.flush();
  expect(stage.outcomes(1)).toEqual(["delivered 200 1 c", "delivered 200 1 d"]);
  expect(stage.outcomes(9)).toEqual(["delivered 200 1 c"]);
  expect(stage.of(9)[0]).toMatchObject({ schema: "public", table: "users", lsn: "0/1000200" });
  expect(stage.of(2)[0]).toMatchObject({
    key: stage.receiver.requests[0]!.headers["idempotency-key"],
    lsn: "0/1000100",
  });
  expect(stage.of(4)).toEqual([]);
  expect(Math.abs(stage.of(2)[0]!.lastAtMs - Date.now())).toBeLessThan(60_000);
});

test("a request that is tried again has one receipt, of all attempts", async () => {
  let left = 3;
  const stage = await Stage.open(() => (left-- > 0 ? 503 : 200));
  const { sink, write } = await stage.life();
  await write([transaction(1, [insert(1)])]);
  await sink.flush();
  expect(stage.outcomes(1)).toEqual(["delivered 200 4 c"]);
});

test("a refusal that ends the run has a receipt, and so has the delivery after it", async () => {
  let isBad = true;
  const stage = await Stage.open(() => (isBad ? 409 : 200));
  const first = await stage.life();
  await first.write([transaction(1, [insert(1)])]);
  await waitFor("the failure", () => stage.failure === "webhook_rejected");
  await waitFor("the receipt", () => stage.of(1).length > 0);
  expect(stage.outcomes(1)).toEqual(["refused 409 1 c"]);
  await first.sink[Symbol.asyncDispose]();
  isBad = false;
  const second = await stage.life();
  await second.write([transaction(1, [insert(1)])]);
  await second.sink.flush();
  expect(stage.outcomes(1)).toEqual(["refused 409 1 c", "delivered 200 1 c"]);
});

test("used up retries are told from refusals", async () => {
  const stage = await Stage.open(() => 500);
  const { write } = await stage.life({ retry: { initial_backoff_ms: 1, max_backoff_ms: 1, max_retries: 2 } });
  await write([transaction(1, [insert(1)])]);
  await waitFor("the receipt", () => stage.of(1).length > 0);
  expect(stage.outcomes(1)).toEqual(["exhausted 500 3 c"]);
});

test("a bad row is seen to be cut out, parked, refused again and at last delivered; its neighbour to be delivered", async () => {
  let word = "bad";
  const stage = await Stage.open((request) => refuses(word)(request));
  const { sink, write } = await stage.life({ on_exhausted: { park: {} } });
  await write([transaction(1, [insert(1, "bad"), insert(2), insert(3), insert(4)])]);
  await sink.flush();
  await write([transaction(2, [insert(1, "later")])]);
  await sink.flush();
  expect(stage.outcomes(1)).toEqual(["cut 422 1 c", "cut 422 1 c", "parked 422 1 c", "parked 0 0 c"]);
  expect(stage.outcomes(2)).toEqual(["cut 422 1 c", "cut 422 1 c", "delivered 200 1 c"]);
  const [, , parked, behind] = stage.of(1);
  expect([parked!.lsn, behind!.lsn]).toEqual(["0/1000100", "0/1000200"]);
  stage.store.parking.ask(({ id }) => id === parked!.key);
  await waitFor("the second refusal", () => stage.of(1).length === 5, { timeoutMs: 10_000 });
  word = "nothing";
  stage.store.parking.ask(({ id }) => id === parked!.key);
  await waitFor("the delivery", () => stage.of(1).length === 7, { timeoutMs: 10_000 });
  expect(
    stage
      .of(1)
      .slice(4)
      .map(({ outcome, key }) => [outcome, key]),
  ).toEqual([
    ["parked", parked!.key],
    ["delivered", parked!.key],
    ["delivered", behind!.key],
  ]);
});

test("what was cut, parked or sent again has its receipt before that is noted: then it does not come again", async () => {
  let word = "bad";
  const stage = await Stage.open((request) => refuses(word)(request));
  const { parking } = stage.store;
  const noted: string[] = [];
  const answer = parking.answer.bind(parking);
  parking.answer = (call) => {
    const isNoted = ["cut", "park", "refused", "delivered"].includes(call.kind);
    if (isNoted) noted.push(`${call.kind}: ${stage.outcomes(1).at(-1)}`);
    return answer(call);
  };
  const { sink, write } = await stage.life({ on_exhausted: { park: {} } });
  await write([transaction(1, [insert(1, "bad"), insert(2)])]);
  await sink.flush();
  parking.ask();
  await waitFor("the second refusal", () => noted.length === 3, { timeoutMs: 10_000 });
  word = "nothing";
  parking.ask();
  await waitFor("the delivery", () => noted.length === 4, { timeoutMs: 10_000 });
  expect(noted).toEqual([
    ...["cut: cut 422 1 c", "park: parked 422 1 c", "refused: parked 422 1 ", "delivered: delivered 200 1 "],
  ]);
});

test("attempts at a message that was discarded while it was sent again have a receipt, and are not remembered", async () => {
  const stage = await Stage.open(refuses("bad"));
  const { sink, write } = await stage.life({ on_exhausted: { park: {} } });
  await write([transaction(1, [insert(1, "bad")])]);
  await sink.flush();
  const headers = { "retry-after": "30" };
  stage.receiver.script = () => ({ kind: "answer", status: 503, headers });
  const { length } = stage.receiver.requests;
  stage.store.parking.ask();
  await waitFor("the attempt", () => stage.receiver.requests.length > length);
  stage.store.parking.discard(stage.store.parking.parked[0]!.message.id);
  await waitFor("the receipt", () => stage.of(1).length === 2, { timeoutMs: 10_000 });
  expect(stage.outcomes(1)).toEqual(["parked 422 1 c", "parked 503 1 "]);
});

test("receipts of what was delivered are saved though the checkpoint waits for another request", async () => {
  const stage = await Stage.open(refuses("stuck", 503));
  const { write } = await stage.life({ batch: { max_batch_size: 1 } });
  await write([transaction(1, [insert(1, "stuck")]), transaction(2, [insert(2)])]);
  await waitFor("the receipt", () => stage.of(2).length > 0, { timeoutMs: 10_000 });
  expect(stage.of(1)).toEqual([]);
});

test("after kills, each row before the checkpoint has a receipt of its delivery, and none that was not delivered", async () => {
  const stage = await Stage.open(() => ({
    kind: "answer",
    status: 200,
    delayMs: Math.floor(Math.random() * 4),
  }));
  const all = Array.from({ length: 400 }, (_, i) => transaction(i + 1, [insert(i), insert(1_000 + i)]));
  for (let life = 0; life < 6; life++) {
    const { rig, sink, write } = await stage.life({ batch: { max_batch_size: life % 2 === 0 ? 7 : 7 } });
    const writing = write(all).catch(() => undefined);
    if (life < 5) await Bun.sleep(30 + Math.random() * 120);
    else {
      await writing;
      await sink.flush();
    }
    if (life < 5) await rig.kill();
    const stored = parseRecord(stage.store.record!);
    if (stored.kind !== "begun") throw new Error("the record is gone");
    const { resumeLsn } = stored.record.checkpoint;
    const arrived = new Set(WebhookReceiver.rows(stage.receiver.requests).map(({ id }) => Number(id)));
    all.forEach(({ endLsn }, i) => {
      for (const id of [i, 1_000 + i]) {
        if (endLsn <= resumeLsn) expect([id, stage.of(id).length > 0]).toEqual([id, true]);
        if (!arrived.has(id)) expect([id, stage.of(id).length]).toEqual([id, 0]);
      }
    });
  }
});

test("without receipts nothing is kept, and what was kept goes", async () => {
  const stage = await Stage.open();
  const first = await stage.life();
  await first.write([transaction(1, [insert(1)])]);
  await first.sink.flush();
  await first.sink[Symbol.asyncDispose]();
  expect(stage.store.receipts.list().length).toBe(1);
  const second = await stage.life({}, 0);
  await second.write([transaction(1, [insert(1)]), transaction(2, [insert(2)])]);
  await second.sink.flush();
  await waitFor("the receipts to go", () => stage.store.receipts.list().length === 0);
});
