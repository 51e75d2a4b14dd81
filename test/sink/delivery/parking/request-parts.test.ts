// Parts of requests: their rows are the request's bytes, their keys the same for ever.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { lsn } from "../../../../src/change/lsn.ts";
import { partRows, partText } from "../../../../src/connector/parking.ts";
import { divideRequest, isUncrossed } from "../../../../src/sink/delivery/parking/divide-request.ts";
import { ParkedIndex } from "../../../../src/sink/delivery/parking/parked-index.ts";
import { entryOf } from "../../../../src/sink/delivery/parking/parked-message.ts";
import {
  halves,
  partsOf,
  placesOf,
  type RowsRequest,
} from "../../../../src/sink/delivery/parking/request-parts.ts";
import { rowKeys } from "../../../../src/sink/delivery/parking/row-keys.ts";
import { PartedBody } from "../../../../src/sink/format/values/message-body.ts";
import { usedMs } from "../../../support/processor-time.ts";
import { parkedEntry, rowAt } from "../../../support/webhook/parked-entry.ts";

const encoder = new TextEncoder();
const partOf = (whole: RowsRequest, rows: readonly number[]) => partsOf(whole, [rows])[0]!;
const textOf = ({ body }: RowsRequest) =>
  new TextDecoder().decode(Buffer.concat(body instanceof PartedBody ? [...body.chunks()] : [body]));

function request(
  rows: readonly string[],
  keyColumns: readonly string[] = ["id"],
  cuts: readonly number[] = [],
  columnsAt: readonly (readonly string[])[] = [[]],
): RowsRequest {
  const bytes = encoder.encode(`[${rows.join(",")}]`);
  let at = 0;
  const ends = rows.map((row) => {
    at += 1 + encoder.encode(row).length;
    return at;
  });
  const places = [0, ...cuts.map((cut) => cut % bytes.length), bytes.length].toSorted((a, b) => a - b);
  const parts = places.slice(1).map((end, i) => bytes.slice(places[i]!, end));
  return {
    schema: "public",
    table: "t",
    rows: rows.length,
    barrier: false,
    position: null,
    body: cuts.length === 0 ? bytes : new PartedBody(parts),
    idempotencyKey: "018bcfe5-6803-7b54-a1b2-c3d4e5f60718",
    touches: rows.map((_, i) => i),
    rowMarks: {
      ends,
      touchEnds: rows.map((_, i) => i + 1),
      commitLsns: rows.map(() => lsn(7n)),
      steps: rows.map((_, i) => 4 * i),
      versions: rows.map((_, i) => 100 + i),
      isBare: false,
      isOfCopy: false,
      keyColumns,
      columnsAt,
      commitTimesUs: rows.map(() => 0),
    },
  };
}

test("ranges of rows come back as they were", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(500), { minLength: 1 }), (rows) => {
      const rising = rows.toSorted((a, b) => a - b);
      expect(partRows(partText(rising))).toEqual(rising);
    }),
  );
  expect(partText([0, 1, 2, 3, 5, 7, 8])).toBe("0-3,5,7-8");
});

test("parts have the rows' bytes, also of a body in pieces and of parts", () => {
  const rowText = fc.string({ unit: "grapheme" }).map((v) => JSON.stringify({ id: 1, v }));
  const cases = fc.record({
    rows: fc.array(rowText, { minLength: 2, maxLength: 9 }),
    cuts: fc.array(fc.nat()),
    pick: fc.nat(),
  });
  fc.assert(
    fc.property(cases, ({ rows, cuts, pick }) => {
      const whole = request(rows, ["id"], cuts);
      const [first = [], second = []] = halves(rows.length);
      for (const half of [first, second, first.filter((_, i) => (pick >> i) % 2 === 0)]) {
        if (half.length === 0) continue;
        const part = partOf(whole, half);
        expect(textOf(part)).toBe(`[${half.map((row) => rows[row]).join(",")}]`);
        const last = partOf(part, [half.length - 1]);
        expect(textOf(last)).toBe(`[${rows[half.at(-1)!]}]`);
        expect(last.touches).toEqual([half.at(-1)!]);
        expect(last.rowMarks.versions).toEqual([100 + half.at(-1)!]);
      }
    }),
  );
});

test("a part's key has the request's time, and is another one for other rows", () => {
  const whole = request(['{"id":1}', '{"id":2}', '{"id":3}']);
  const keys = [[0], [1], [0, 1], [1, 2]].map((rows) => partOf(whole, rows).idempotencyKey);
  expect(new Set(keys).size).toBe(4);
  for (const key of keys) expect(key).toStartWith("018bcfe5-6803-7");
  expect(partOf(whole, [1]).idempotencyKey).toBe(keys[1]!);
});

test("keys of rows in either form, with all their digits", () => {
  const native = ['{"v":"}\\"{","id":9007199254740993,"n":1.50}', '{"id":-7,"v":{"id":3},"n":"x"}'];
  expect(rowKeys(request(native, ["id", "n"]))).toBe(
    '[{"id":"9007199254740993","n":"1.50"},{"id":-7,"n":"x"}]',
  );
  const envelopes = ['{"before":null,"after":{"id":1,"v":[1,{"id":2}]}}', '{"before":{"id":5},"after":null}'];
  const inEnvelope = [["after"], ["before"]];
  expect(rowKeys(request(envelopes, ["id"], [], inEnvelope))).toBe('[{"id":1},{"id":5}]');
  const withSchema = envelopes.map((row) => `{"schema":{"id":8},"payload":${row}}`);
  const inPayload = inEnvelope.map((place) => ["payload", ...place]);
  expect(rowKeys(request(withSchema, ["id"], [], inPayload))).toBe('[{"id":1},{"id":5}]');
  expect(rowKeys(request([`{"v":"${"x".repeat(70_000)}","id":1}`]))).toBe("[]");
  expect(rowKeys(request(['{"id":1}'], []))).toBe("[]");
});

test("rows of a copy have one place, and none is taken for another one", () => {
  const index = new ParkedIndex();
  const ofCopy = (rows: readonly string[], touches: readonly number[]): RowsRequest => {
    const made = request(rows);
    const touchEnds = touches.length === 0 ? rows.map(() => 0) : null;
    return {
      ...made,
      touches,
      rowMarks: {
        ...made.rowMarks,
        touchEnds,
        steps: rows.map(() => 3),
        versions: rows.map(() => 7),
        isOfCopy: true,
      },
    };
  };
  const rows = ['{"id":1}', '{"id":2}'];
  for (const touches of [[], [5, 5]]) {
    const parked = partOf(ofCopy(rows, touches), [0]);
    index.add(entryOf(parked));
    const others = divideRequest(ofCopy(rows, touches), index, new ParkedIndex());
    expect(others).toEqual({ free: [0, 1], behind: [], rows: 2 });
  }
  // A change of the stream has a place of its own, and comes again at it.
  const change = request(rows);
  index.add({ ...entryOf(partOf(change, [0])), id: "other" });
  expect(divideRequest(change, index, new ParkedIndex()).free).not.toContain(0);
});

test("a message of several rows holds those that are in it, and none between them", () => {
  const index = new ParkedIndex();
  const whole = request(['{"id":1}', '{"id":2}', '{"id":3}']);
  const holds = (hash: number, row: number) =>
    index.holds("public", "t", { ...placesOf(whole)[row]!, hashes: [hash] });
  const [first, between, last] = [0, 1, 2];
  // The middle one went another way: it waits behind a message of its own.
  const message = { ...entryOf(partOf(whole, [0, 2])), hashes: [1, 2] };
  index.add(message);
  expect([holds(1, first), holds(2, last), holds(1, between)]).toEqual([true, true, false]);
  index.remove(message);
  index.add({ ...message, isWide: true });
  expect([holds(1, first), holds(2, last), holds(1, between)]).toEqual([true, true, false]);
});

test("a row waits behind its own key, and not behind others of a message that was cut from beside it", () => {
  const index = new ParkedIndex();
  const rows = Array.from({ length: 4 }, (_, i) => `{"id":${i}}`);
  const whole = { ...request(rows), touches: [4, 7, 4, 7] };
  const [before = whole, later = whole] = partsOf(whole, [[1], [0, 2, 3]]);
  index.add(entryOf(later));
  const { free, behind } = divideRequest(before, index, new ParkedIndex());
  expect([free, behind]).toEqual([[0], []]);
  const next = { ...placesOf(whole)[3]!, hashes: [7] };
  expect(index.ahead("public", "t", next)).toBeNull();
  expect(index.ahead("public", "t", { ...next, place: next.place + 1n })?.id).toBe(later.idempotencyKey);
});

test("a row that comes again and is parked after a later one goes before it, and what lies between waits", () => {
  const index = new ParkedIndex();
  const whole = { ...request(['{"id":1,"v":1}', '{"id":1,"v":2}', '{"id":1,"v":3}']), touches: [1, 1, 1] };
  const [first = whole, between = whole, last = whole] = partsOf(whole, [[0], [1], [2]]);
  const [early, late] = [entryOf(first), entryOf(last)];
  index.add(late);
  index.add(early);
  expect([index.isFirst(early), index.isFirst(late)]).toEqual([true, false]);
  expect(index.firstOfKeys(late)).toEqual([early]);
  expect(divideRequest(between, index, new ParkedIndex())).toMatchObject({ free: [], behind: [[0]] });
  expect(index.lastOf("public", "t", [1])).toEqual([late]);
  for (const [row, part] of [first, between, last].entries())
    expect([row, index.holds("public", "t", { ...placesOf(part)[0]!, hashes: [1] })]).toEqual([
      row,
      row !== 1,
    ]);
  index.remove(early);
  expect(index.isFirst(late)).toBe(true);
  index.remove(late);
  expect([index.size, index.lacks("public", "t")]).toEqual([0, true]);
});

test("what waits is one part for each key", () => {
  const index = new ParkedIndex();
  const rows = Array.from({ length: 6 }, (_, i) => `{"id":${i % 3}}`);
  const whole = { ...request(rows), touches: [0, 1, 2, 0, 1, 2] };
  index.add({ ...entryOf(partOf(whole, [0])), id: "first", places: [1n] });
  index.add({ ...entryOf(partOf(whole, [1])), id: "second", places: [1n] });
  const { free, behind } = divideRequest(whole, index, new ParkedIndex());
  expect({ free, behind }).toEqual({
    free: [2, 5],
    behind: [
      [0, 3],
      [1, 4],
    ],
  });
});

test("what waits is no one part where a parked message that was cut in another way stands between its rows", () => {
  const index = new ParkedIndex();
  const whole = { ...request(Array.from({ length: 5 }, () => '{"id":1}')), touches: [0, 0, 0, 0, 0] };
  const places = placesOf(whole).map(({ place }) => place);
  const park = (id: string, hashes: readonly number[], rows: readonly bigint[]) =>
    index.add(parkedEntry(id, 0, hashes, { places: rows, firstRows: hashes.map((_, i) => i) }));
  park("ahead", [0], [1n]);
  expect(divideRequest(whole, index, new ParkedIndex()).behind).toEqual([[0, 1, 2, 3, 4]]);
  park("between", [0], [places[2]! + 1n]);
  expect(divideRequest(whole, index, new ParkedIndex()).behind).toEqual([
    [0, 1, 2],
    [3, 4],
  ]);
});

test("a request that may have arrived stays whole only where it stands behind all that it waits for", () => {
  const whole = { ...request(['{"id":1}', '{"id":2}']), touches: [0, 1] };
  const [first, second] = placesOf(whole).map(({ place }) => place);
  const isWhole = (rows: readonly bigint[]) => {
    const index = new ParkedIndex();
    index.add(parkedEntry("parked", 0, [1, 0], { places: rows, firstRows: [0, 1] }));
    return isUncrossed(whole, index);
  };
  expect(isWhole([first! - 2n, first! - 1n])).toBeTrue();
  // Its row of the one key waits behind the message, whose row of the other key would wait behind it: neither could ever be sent.
  expect(isWhole([second! - 2n, second! - 1n])).toBeFalse();
  expect(isWhole([second! + 1n, second! + 2n])).toBeTrue();
});

test("a large request is cut by thousands of parked keys in a moment", () => {
  const index = new ParkedIndex();
  const count = 50_000;
  const whole = request(Array.from({ length: count }, (_, i) => `{"id":${i},"v":"${"x".repeat(40)}"}`));
  for (let row = 0; row < count; row += 10)
    index.add({
      ...entryOf(partOf(request(['{"id":1}']), [0])),
      id: `of ${row}`,
      hashes: [row],
      places: [1n],
    });
  const began = usedMs();
  const { free, behind } = divideRequest(whole, index, new ParkedIndex());
  const parts = partsOf(whole, [free, ...behind]);
  expect(parts.length).toBe(5_001);
  // Looking at each of its rows once for each part took fifty times as long.
  expect(usedMs() - began).toBeLessThan(2_000);
});

test("a hundred thousand parked messages take little, and are found at once", () => {
  const index = new ParkedIndex();
  Bun.gc(true);
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < 100_000; n++) {
    const one = request(['{"id":1}']);
    const id = `018bcfe5-6803-7b54-a1b2-${String(n).padStart(12, "0")}`;
    index.add({ ...entryOf(one), id, hashes: [n % 50_000] });
  }
  Bun.gc(true);
  expect((process.memoryUsage().heapUsed - before) / 1e6).toBeLessThan(100);
  const beganMs = usedMs();
  for (let n = 0; n < 100_000; n++) index.ahead("public", "t", { hashes: [n], ...rowAt(1000) });
  for (const entry of [...index.all()]) index.remove(entry);
  expect(usedMs() - beganMs).toBeLessThan(2_000);
  expect([index.size, index.bytes]).toEqual([0, 0]);
});

const single = (n: number, hash: number | null, place = n) =>
  parkedEntry(`of ${n}`, place, hash === null ? [] : [hash]);

test.each([
  ["a key", 7],
  ["a table without a key", null],
] as const)(
  "what comes again of %s, and what is discarded of it, is found among fifty thousand messages in a moment",
  (_, hash) => {
    const index = new ParkedIndex();
    const entries = Array.from({ length: 50_000 }, (_, n) => single(n, hash, 2 * n));
    for (const entry of entries) index.add(entry);
    const hashes = hash === null ? [] : [hash];
    const holds = (n: number) => index.holds("public", "t", { hashes, ...rowAt(n) });
    const beganMs = usedMs();
    for (let n = 80_000; n < 100_000; n += 2) if (!holds(n) || holds(n + 1)) throw new Error(`row ${n}`);
    expect(usedMs() - beganMs).toBeLessThan(500);
    for (const entry of entries.toReversed()) {
      index.remove(entry);
      index.freed(entry);
    }
    expect([index.size, usedMs() - beganMs < 1_000]).toEqual([0, true]);
  },
);

test("a message is found by the place of its row also where places do not rise", () => {
  const index = new ParkedIndex();
  const holds = (n: number) => index.holds("public", "t", { hashes: [7], ...rowAt(n) });
  for (const [n, place] of [5, 3, 9, 4].entries()) index.add(single(n, 7, place));
  expect([3, 4, 5, 6, 9].map(holds)).toEqual([true, true, true, false, true]);
  index.remove(index.get("of 1")!);
  expect([3, 4, 5, 6, 9].map(holds)).toEqual([false, true, true, false, true]);
});

test("the rows of a message that an earlier version has parked are found, and waited for, by their versions", () => {
  const index = new ParkedIndex();
  // The first row of key 8 is the second one.
  const places = [20n, 21n, 23n].map((version) => -version);
  const message = parkedEntry("earlier", 0, [7, 8], { places, firstRows: [0, 1] });
  for (const entry of [single(10, 7, -10), message, single(30, 8)]) index.add(entry);
  const row = (version: number) => ({ hashes: [8], place: 1_000n, version });
  const holds = (version: number) => index.holds("public", "t", row(version));
  expect([10, 19, 20, 21, 22, 23, 24].map(holds)).toEqual([false, false, true, true, false, true, false]);
  expect(index.holds("public", "t", { ...row(99), place: 30n })).toBe(true);
  const isBehind = (version: number) => index.ahead("public", "t", row(version)) === message;
  expect([20, 21, 22].map(isBehind)).toEqual([false, false, true]);
});

test("a new row is not looked for in what an earlier version has parked of its key, also behind newer messages", () => {
  const index = new ParkedIndex();
  let read = 0;
  for (let n = 1; n <= 100; n++) {
    const entry = single(n, 7, -n);
    const { places } = entry;
    const get = () => {
      read++;
      return places;
    };
    Object.defineProperty(entry, "places", { get });
    index.add(entry);
  }
  index.add(single(200, 7));
  read = 0;
  expect([201, 300].map((n) => index.holds("public", "t", { hashes: [7], ...rowAt(n) }))).toEqual([
    false,
    false,
  ]);
  expect(read).toBe(0);
  expect(index.holds("public", "t", { hashes: [7], place: 199n, version: 50 })).toBe(true);
});
