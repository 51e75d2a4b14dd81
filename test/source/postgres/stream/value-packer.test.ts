// How a large message of a text stream is packed, wherever the network cuts it.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { isPacked, storedBytes } from "../../../../src/change/packed-hex.ts";
import { CopyBothReader } from "../../../../src/source/postgres/stream/copy-both-reader.ts";
import { ValuePacker } from "../../../../src/source/postgres/stream/value-packer.ts";

type Value = string | null | "unchanged";
/** The size of values that are packed here, in messages above this size. */
const leastBytes = 10;
const largeBytes = 60;

function tuple(letter: string, row: readonly Value[]): Buffer {
  const head = Buffer.from(`${letter}\0\0`, "latin1");
  head.writeUInt16BE(row.length, 1);
  return Buffer.concat([head, ...row.map(column)]);
}

function column(value: Value): Buffer {
  if (value === null) return Buffer.from("n");
  if (value === "unchanged") return Buffer.from("u");
  const head = Buffer.from("t\0\0\0\0");
  head.writeInt32BE(Buffer.byteLength(value), 1);
  return Buffer.concat([head, Buffer.from(value)]);
}

const message = (kind: string, ...tuples: readonly Buffer[]) =>
  Buffer.concat([Buffer.from(`${kind}\0\0\0\x07`, "latin1"), ...tuples]);

function asStreamData(payload: Buffer): Buffer {
  const head = Buffer.alloc(30);
  head.write("d", 0);
  head.writeUInt32BE(payload.length + 29, 1);
  head.write("w", 5);
  return Buffer.concat([head, payload]);
}

interface Received {
  /** The message with its packed values unpacked. */
  readonly text: string;
  readonly packed: number;
  readonly bytes: number;
}

/** The reader's output for messages that arrive in parts of these lengths, one after the other. */
function received(messages: readonly Buffer[], cuts: readonly number[]): readonly Received[] {
  const out: Received[] = [];
  const take = (bytes: Buffer, at: number, end: number) => out.push(unpackedMessage(bytes.subarray(at, end)));
  const handlers = { onMessage: take, onLargeMessage: take, onKeepalive: () => {}, onOther: () => {} };
  const reader = new CopyBothReader(handlers, () => new ValuePacker(0, leastBytes), largeBytes);
  const bytes = Buffer.concat(messages.map(asStreamData));
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const next = at + cuts[i % cuts.length]!;
    reader.push(Buffer.from(bytes.subarray(at, next)));
    at = next;
  }
  return out;
}

function unpackedMessage(bytes: Buffer): Received {
  const kind = String.fromCharCode(bytes[0]!);
  const parts: Buffer[] = [];
  let at = 5;
  let packed = 0;
  while (at < bytes.length) {
    const row: Value[] = [];
    const letter = String.fromCharCode(bytes[at]!);
    const columns = bytes.readUInt16BE(at + 1);
    at += 3;
    for (let c = 0; c < columns; c++) {
      const format = String.fromCharCode(bytes[at++]!);
      if (format !== "t") {
        row.push(format === "n" ? null : "unchanged");
        continue;
      }
      const length = bytes.readInt32BE(at);
      const stored = bytes.subarray(at + 4, at + 4 + storedBytes(length));
      if (isPacked(length)) packed++;
      row.push(isPacked(length) ? `\\x${stored.toString("hex")}` : stored.toString());
      at += 4 + stored.length;
    }
    parts.push(tuple(letter, row));
  }
  return { text: message(kind, ...parts).toString("latin1"), packed, bytes: bytes.length };
}

const bytea = fc
  .uint8Array({ minLength: 1, maxLength: 150 })
  .map((bytes) => `\\x${Buffer.from(bytes).toString("hex")}`);
const value: fc.Arbitrary<Value> = fc.oneof(
  bytea,
  fc.string({ maxLength: 100 }),
  // It starts like bytea.
  fc.tuple(bytea, fc.constantFrom("g", "A", "\\", "0", "ü"), bytea).map(([a, b, c]) => a + b + c.slice(2)),
  fc.constant(null),
  fc.constant("unchanged"),
);
const row = fc.array(value, { maxLength: 6 });
const sent = fc.oneof(
  row.map((after) => message("I", tuple("N", after))),
  row.map((after) => message("U", tuple("N", after))),
  fc
    .tuple(fc.constantFrom("O", "K"), row, row)
    .map(([letter, before, after]) => message("U", tuple(letter, before), tuple("N", after))),
  fc.tuple(fc.constantFrom("O", "K"), row).map(([letter, before]) => message("D", tuple(letter, before))),
);

test("packed values unpack exactly, and everything else is unchanged", () => {
  fc.assert(
    fc.property(
      fc.array(sent, { minLength: 1, maxLength: 4 }),
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1 }),
      (messages, cuts) => {
        const texts = received(messages, cuts).map(({ text }) => text);
        expect(texts).toEqual(messages.map((each) => each.toString("latin1")));
      },
    ),
    { numRuns: 500 },
  );
});

test("bytea that arrives in many parts is stored as its bytes, in old and new rows", () => {
  const of = (byte: string) => `\\x${byte.repeat(3_000)}`;
  const update = message("U", tuple("O", ["1", of("ab"), null]), tuple("N", ["1", of("01"), of("ff")]));
  const rows = 3 * (3_000 + 5) + 40;
  for (const cut of [1, 7, 64, 1_000, 5_003]) {
    const [got] = received([update, update], [cut]);
    expect(got).toMatchObject({ packed: 3, text: update.toString("latin1") });
    expect(got!.bytes).toBeLessThan(rows);
  }
});

test("other messages pass unchanged", () => {
  const text = `\\x${"00".repeat(100)}`;
  const truncate = Buffer.concat([Buffer.from("T\0\0\0\x01"), Buffer.from(text)]);
  const out: string[] = [];
  const take = (bytes: Buffer, at: number, end: number) => out.push(bytes.toString("latin1", at, end));
  const handlers = { onMessage: take, onLargeMessage: take, onKeepalive: () => {}, onOther: () => {} };
  const reader = new CopyBothReader(handlers, () => new ValuePacker(0, leastBytes), largeBytes);
  const bytes = asStreamData(truncate);
  for (let at = 0; at < bytes.length; at += 20) reader.push(Buffer.from(bytes.subarray(at, at + 20)));
  expect(out).toEqual([truncate.toString("latin1")]);
});
