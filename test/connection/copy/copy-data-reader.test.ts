// Reads the rows of a COPY from its socket, wherever the chunks are cut.

import { expect, test } from "bun:test";
import { CopyDataReader } from "../../../src/connection/copy/copy-data-reader.ts";

function message(type: string, payload: Uint8Array | string): Buffer {
  const body = Buffer.from(payload);
  const header = Buffer.from([type.charCodeAt(0), 0, 0, 0, 0]);
  header.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}

const rows = ["", "d", "first", "x".repeat(300), "\u0000c\u0000d", "last"];
const stream = Buffer.concat([
  message("H", "\u0000\u0000\u0000"),
  ...rows.slice(0, 3).map((row) => message("d", row)),
  message("N", "a notice amid the rows"),
  ...rows.slice(3).map((row) => message("d", row)),
  message("c", ""),
  message("Z", "T"),
]);
const others = Buffer.concat([
  message("H", "\u0000\u0000\u0000"),
  message("N", "a notice amid the rows"),
  message("c", ""),
  message("Z", "T"),
]);

/** The output for these chunks. */
function read(pieces: readonly Uint8Array[]): {
  readonly data: Buffer;
  readonly other: Buffer;
  readonly messages: number;
} {
  const other: Buffer[] = [];
  const reader = new CopyDataReader((bytes) => other.push(bytes));
  const data: Uint8Array[] = [];
  for (const piece of pieces) {
    reader.push(Buffer.from(piece));
    const taken = data.length % 3 === 2 ? null : reader.take();
    if (taken) data.push(taken);
  }
  for (let rest = reader.take(); rest; rest = reader.take()) data.push(rest);
  return { data: Buffer.concat(data), other: Buffer.concat(other), messages: reader.messages };
}

test("rows are counted and returned without message headers, and other messages unchanged, wherever the chunks are cut", () => {
  for (let first = 0; first <= stream.length; first++) {
    const { data, other, messages } = read([stream.subarray(0, first), stream.subarray(first)]);
    expect(messages).toBe(rows.length);
    expect(data.toString()).toBe(rows.join(""));
    expect(other.equals(others)).toBe(true);
  }
  const bytewise = read(Array.from(stream, (byte) => Buffer.of(byte)));
  expect(bytewise.data.toString()).toBe(rows.join(""));
  expect(bytewise.messages).toBe(rows.length);
  expect(bytewise.other.equals(others)).toBe(true);
});

test("a row larger than any block is packed while it arrives, and blocks do not grow for it", () => {
  const row = Buffer.alloc(3_000_000, "row");
  const reader = new CopyDataReader(() => {});
  const bytes = message("d", row);
  for (let at = 0; at < bytes.length; at += 65_537) reader.push(bytes.subarray(at, at + 65_537));
  const blocks: Uint8Array[] = [];
  for (let block = reader.take(); block; block = reader.take()) blocks.push(block);
  expect(Buffer.concat(blocks).equals(row)).toBe(true);
  expect(Math.max(...blocks.map((block) => block.buffer.byteLength))).toBe(256 * 1024);
});

test("rows of a large chunk stay in it, after the rows that arrived before", () => {
  const reader = new CopyDataReader(() => {});
  const large = Array.from({ length: 1000 }, (_, i) => `${i} ${"x".repeat(i)}\n`);
  const chunk = Buffer.from(Buffer.concat(["last ", ...large].map((row) => message("d", row))));
  const own = Buffer.alloc(chunk.length, chunk);
  const memory = own.buffer;
  reader.push(message("d", "first "));
  reader.push(own);
  // For a view of a larger buffer, the rest of the buffer belongs to somebody else.
  const larger = Buffer.concat([Buffer.of(0), chunk]);
  reader.push(larger.subarray(1));
  expect(reader.take()?.toString()).toBe("first ");
  const kept = reader.take()!;
  expect(kept.buffer).toBe(memory);
  expect(kept.toString()).toBe(`last ${large.join("")}`);
  expect(memory.byteLength).toBe(chunk.length);
  reader.releaseTaken();
  expect(memory.byteLength).toBe(0);
  const packed: Uint8Array[] = [];
  for (let block = reader.take(); block; block = reader.take()) packed.push(block);
  expect(Buffer.concat(packed).toString()).toBe(`last ${large.join("")}`);
  expect(larger.length).toBe(chunk.length + 1);
});

test("a header that is cut before a byte that looks like a message type is not misread", () => {
  // A row of one column in COPY's binary form. Its message is 100 bytes long, and 100 is the letter d.
  const row = Buffer.concat([Buffer.of(0, 1, 0, 0, 0, 90), Buffer.alloc(90, "v")]);
  const all = Buffer.concat(Array.from({ length: 1000 }, () => message("d", row)));
  const { data, messages } = read([all.subarray(0, 4), all.subarray(4)]);
  expect(messages).toBe(1000);
  expect(data.equals(Buffer.concat(Array.from({ length: 1000 }, () => row)))).toBe(true);
});

test("a message shorter than its own length field is treated as empty, and reading continues", () => {
  const broken = message("d", "");
  broken.writeUInt32BE(0, 1);
  const { data } = read([Buffer.concat([broken, message("d", "behind")])]);
  expect(data.toString()).toBe("behind");
});
