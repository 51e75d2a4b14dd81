// What a receiver refuses is parked, through the real worker; everything else arrives.

import { expect, test } from "bun:test";
import { formatLsn } from "../../../../src/change/lsn.ts";
import { neverAborted } from "../../../../src/concurrency/until-aborted.ts";
import { relation, tableShape, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { insert, log, ParkingBench, refuses, update, users } from "../../../support/webhook/parking-bench.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";

const line = (text: string) => ({ kind: "insert", relation: log, after: [text] }) as const;

const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("one bad row among a thousand is parked, and the others arrive once", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life();
  const rows = ids(1, 1000).map((id) => insert(id, id === 700 ? "bad" : `u${id}`));
  await write([transaction(1, rows)]);
  await sink.flush();
  expect(at.parked.map(({ message: { keys, rows, cause } }) => ({ keys, rows, cause }))).toEqual([
    { keys: '[{"id":700}]', rows: 1, cause: "refused" },
  ]);
  expect(at.parked[0]!.attempts).toMatchObject([{ status: 422, answer: "no bad" }]);
  expect(at.rows.toSorted()).toEqual(
    ids(1, 1000)
      .filter((id) => id !== 700)
      .map((id) => `${id} u${id}`)
      .toSorted(),
  );
  expect(at.receiver.requests.length).toBeLessThan(30);
  expect(at.warnings.at(-1)).toContain("1 message is parked");
  expect(Bun.zstdDecompressSync(at.parked[0]!.message.body).toString()).toMatch(
    /^\[\{"id":700,"name":"bad",.*\}\]$/,
  );
});

test("a parked row tells its own commit, and not that of the request that it was cut from", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life();
  const rows = [
    transaction(1, [insert(1)]),
    transaction(9, [insert(2, "bad")]),
    transaction(10, [insert(3)]),
  ];
  await write(rows);
  await sink.flush();
  expect(at.receiver.requests[0]!.body).toContain('"id":1,');
  const { commitLsn, commitTimeUs } = rows[1]!;
  expect(at.parked.map(({ message: { firstLsn, committedAtMs } }) => [firstLsn, committedAtMs])).toEqual([
    [formatLsn(commitLsn), Number(commitTimeUs / 1000n)],
  ]);
});

const misleading = relation(
  "odd",
  [
    ["payload", 3802, "jsonb"],
    ["before", 3802, "jsonb"],
    ["after", 3802, "jsonb"],
    ["id", 20, "bigint"],
  ],
  { id: 16_402, key: [3] },
);

test.each([{ native: {} }, { debezium: {} }] as const)(
  "a key is told also where columns are called as the members of an envelope are, in the form %j",
  async (format) => {
    await using at = await ParkingBench.start(refuses("bad"));
    const { sink, write } = await at.life({ format });
    const after = ['{"id":1,"bad":1}', '{"id":2}', '{"id":3}', "4"];
    await write([transaction(1, [{ kind: "insert", relation: misleading, after }])]);
    await sink.flush();
    expect(at.parked.map(({ message: { keys } }) => keys)).toEqual(['[{"id":4}]']);
  },
);

test("a request that the receiver took before its connection ended, and refuses when it comes again, is not cut", async () => {
  let taken: string | undefined;
  await using at = await ParkingBench.start(({ index, headers: { "idempotency-key": key } }) => {
    if (index === 1) {
      taken = key;
      return { kind: "reset" };
    }
    return taken !== undefined && key === taken ? 409 : 200;
  });
  const { sink, write } = await at.life();
  await write([transaction(1, [insert(1)])]);
  await sink.flush();
  await write([
    transaction(
      2,
      ids(11, 20).map((id) => insert(id)),
    ),
  ]);
  await sink.flush();
  const again = at.receiver.requests.slice(1).map(({ headers }) => headers["idempotency-key"]);
  expect(again).toEqual([taken, taken]);
  expect(
    at.parked.map(({ message: { cause, rows, mayHaveArrived } }) => [cause, rows, mayHaveArrived]),
  ).toEqual([["refused", 10, true]]);
  expect(at.store.parking.cuts.size).toBe(0);
});

test("later changes of its key wait behind it, and follow a retry in order", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life();
  await write([transaction(1, [insert(1), insert(2, "bad"), insert(3)])]);
  await sink.flush();
  await write([transaction(2, [update(1, "a"), update(2, "b"), update(3, "c"), update(2, "d")])]);
  await sink.flush();
  // Both wait in one message, as they are of one key.
  expect(at.parked.map(({ message }) => [message.cause, message.rows])).toEqual([
    ["refused", 1],
    ["behind", 2],
  ]);
  expect(at.rows.toSorted()).toEqual(["1 a", "1 u1", "3 c", "3 u3"]);
  at.receiver.script = () => 200;
  expect(at.store.parking.ask(({ cause }) => cause === "refused")).toBe(1);
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.rows.slice(4)).toEqual(["2 bad", "2 b", "2 d"]);
  await waitFor("the warning to end", () => at.warnings.at(-1) === null);
  await write([transaction(3, [update(2, "e")])]);
  await sink.flush();
  expect(at.rows.at(-1)).toBe("2 e");
  expect(at.parked).toEqual([]);
});

test("one that is refused again stays, with its attempts, and what is behind it", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life({ batch: { max_batch_size: 1 } });
  await write([transaction(1, [insert(2, "bad"), update(2, "b")])]);
  await sink.flush();
  for (let i = 2; i <= 5; i++) {
    at.receiver.script = refuses("bad", 410 + i);
    at.store.parking.ask();
    await waitFor("the attempt", () => at.parked[0]!.attempts.some(({ status }) => status === 410 + i));
  }
  expect(at.parked[0]!.attempts.map(({ status }) => status)).toEqual([422, 414, 415]);
  // What waits behind it is noted as tried after the attempt was.
  await waitFor("nothing to be asked for", () => at.parked.every(({ asked }) => asked === null));
  expect(at.parked.length).toBe(2);
  at.store.parking.discard(at.parked[0]!.message.id);
  await waitFor("what was behind it", () => at.parked.length === 0);
  expect(
    WebhookReceiver.rows(at.receiver.delivered.map((each) => ({ ...each, body: `[${each.body}]` }))),
  ).toMatchObject([{ id: 2, name: "b" }]);
});

test("a table without a key follows as a whole", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life();
  await write([transaction(1, [line("one"), line("bad"), line("three"), insert(1)])]);
  await sink.flush();
  await write([transaction(2, [line("last"), insert(2)])]);
  await sink.flush();
  expect(at.rows).toEqual(
    ["one", "1 u1", "2 u2"].toSorted((a, b) => at.rows.indexOf(a) - at.rows.indexOf(b)),
  );
  expect(at.parked.length).toBe(3);
  at.receiver.script = () => 200;
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.rows.filter((row) => !String(row).includes("u"))).toEqual(["one", "bad", "three", "last"]);
});

test("full: the run ends and says so, and a retry empties it", async () => {
  await using at = await ParkingBench.start(refuses("id"));
  const life = await at.life({ on_exhausted: { park: { max_messages: 5 } }, batch: { max_batch_size: 4 } });
  await life.write([
    transaction(
      1,
      ids(1, 20).map((id) => insert(id)),
    ),
  ]);
  const error = await life.sink.flush().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "parking_full" });
  expect((error as Error).message).toContain('"millrace parked list hooks"');
  expect(at.parked.length).toBeLessThanOrEqual(5);
  await life.rig[Symbol.asyncDispose]();
  at.receiver.script = () => 200;
  at.store.parking.ask();
  const next = await at.life({ on_exhausted: { park: { max_messages: 5 } }, batch: { max_batch_size: 4 } });
  await next.write([
    transaction(
      1,
      ids(1, 20).map((id) => insert(id)),
    ),
  ]);
  await next.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.rows.toSorted()).toEqual(
    ids(1, 20)
      .map((id) => `${id} u${id}`)
      .toSorted(),
  );
});

test("the state is told whether rows of a copy may come again", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { rig, sink, write } = await at.life();
  const copy = await sink.copies.begin(tableShape(users), "initial", "waits", neverAborted);
  await copy.start(true);
  await copy[Symbol.asyncDispose]();
  await write([transaction(1, [insert(1)])]);
  await sink.flush();
  await rig[Symbol.asyncDispose]();
  // At the start nobody knows.
  const next = await at.life();
  await next.rig[Symbol.asyncDispose]();
  await using other = await ParkingBench.start(refuses("bad"));
  const made = await other.life();
  await made.write([transaction(1, [insert(1)])]);
  await made.sink.flush();
  const told = (each: ParkingBench) => each.store.parking.sweeps.map(({ areCopiesOpen }) => areCopiesOpen);
  await waitFor("sweeps", () => told(at).length + told(other).length === 3);
  expect([told(at), told(other)]).toEqual([[true, true], [false]]);
});

test("with stop the run fails as ever, and nothing is parked", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life({ on_exhausted: { stop: {} } });
  await write([transaction(1, [insert(1), insert(2, "bad")])]);
  expect(await sink.flush().catch((error: unknown) => error)).toMatchObject({ code: "webhook_rejected" });
  expect(at.store.parking.kept.size).toBe(0);
  expect(at.store.parking.cuts.size).toBe(0);
});

test("what was not answered is parked as it is, whatever its rows", async () => {
  await using at = await ParkingBench.start(refuses(""));
  at.receiver.script = () => 503;
  const { sink, write } = await at.life({
    retry: { max_retries: 2, initial_backoff_ms: 1, max_backoff_ms: 2 },
  });
  await write([
    transaction(
      1,
      ids(1, 10).map((id) => insert(id)),
    ),
  ]);
  await sink.flush();
  expect(at.parked.map(({ message }) => [message.rows, message.cause])).toEqual([[10, "exhausted"]]);
  expect(at.parked[0]!.attempts.length).toBe(3);
  expect(JSON.parse(at.parked[0]!.message.keys)).toHaveLength(10);
  const [first] = at.receiver.requests;
  at.receiver.script = () => 200;
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.receiver.delivered[0]!.headers["idempotency-key"]).toBe(first!.headers["idempotency-key"]!);
  expect(at.receiver.delivered[0]!.body).toBe(first!.body);
});

test("what is refused after an attempt without an answer is parked as it is", async () => {
  await using at = await ParkingBench.start(refuses(""));
  let attempts = 0;
  at.receiver.script = () => (attempts++ === 0 ? 503 : 422);
  const { sink, write } = await at.life();
  const rows = ids(1, 10).map((id) => insert(id));
  await write([transaction(1, rows)]);
  await sink.flush();
  expect(at.parked.map(({ message }) => [message.rows, message.cause])).toEqual([[10, "refused"]]);
  expect(at.parked[0]!.attempts.map(({ status }) => status)).toEqual([503, 422]);
  expect(at.store.parking.cuts.size).toBe(0);
  const keys = at.receiver.requests.map(({ headers }) => headers["idempotency-key"]);
  expect([keys.length, new Set(keys).size]).toEqual([2, 1]);
});

test("a row of 50 MB is parked, and arrives as it was", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life();
  const large = `bad${"x".repeat(50_000_000)}`;
  await write([transaction(1, [insert(1), insert(2, large), insert(3)])]);
  await sink.flush();
  expect(at.parked.map(({ message: { keys, bytes } }) => [keys, bytes > 50_000_000])).toEqual([
    ['[{"id":2}]', true],
  ]);
  expect(at.parked[0]!.message.body.length).toBeLessThan(1_000_000);
  const sent = at.receiver.requests.find(({ body }) => body.includes("bad"))!.body;
  at.receiver.script = () => 200;
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0, { timeoutMs: 20_000 });
  expect(at.receiver.delivered.some(({ body }) => body === sent)).toBeTrue();
}, 60_000);

test("a receiver that refuses everything fills the parking within bounded attempts, and one retry empties it", async () => {
  await using at = await ParkingBench.start(refuses("id"));
  const on_exhausted = { park: { max_messages: 300 } };
  const rows = [
    transaction(
      1,
      ids(1, 2_000).map((id) => insert(id)),
    ),
  ];
  const life = await at.life({ on_exhausted });
  await life.write(rows);
  expect(await life.sink.flush().catch((error: unknown) => error)).toMatchObject({ code: "parking_full" });
  expect(at.receiver.requests.length).toBeLessThan(1_500);
  await life.rig[Symbol.asyncDispose]();
  at.receiver.script = () => 200;
  at.store.parking.ask();
  const next = await at.life({ on_exhausted });
  await next.write(rows);
  await next.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0, { timeoutMs: 20_000 });
  expect(at.rows.toSorted()).toEqual(
    ids(1, 2_000)
      .map((id) => `${id} u${id}`)
      .toSorted(),
  );
}, 60_000);
