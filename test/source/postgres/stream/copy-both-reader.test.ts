import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  CopyBothReader,
  largeMessagePadding,
} from "../../../../src/source/postgres/stream/copy-both-reader.ts";

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, "latin1");
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

function xLogData(payload: string): Buffer {
  return message("d", Buffer.concat([Buffer.from("w"), Buffer.alloc(24), Buffer.from(payload)]));
}

function keepalive(walEnd: bigint, reply: boolean): Buffer {
  const body = Buffer.alloc(18);
  body.write("k");
  body.writeBigUInt64BE(walEnd, 1);
  body[17] = reply ? 1 : 0;
  return message("d", body);
}

const sent = fc.oneof(
  fc.string({ maxLength: 300 }).map((text) => ({ bytes: xLogData(text), expected: `data ${text}` })),
  fc.integer({ min: 200_000, max: 400_000 }).map((length) => {
    const text = "x".repeat(length);
    return { bytes: xLogData(text), expected: `data ${text}` };
  }),
  fc.tuple(fc.bigInt(0n, 2n ** 64n - 1n), fc.boolean()).map(([walEnd, reply]) => ({
    bytes: keepalive(walEnd, reply),
    expected: `keepalive ${walEnd} ${reply}`,
  })),
  fc.constantFrom("E", "Z", "W", "C").map((type) => ({
    bytes: message(type, Buffer.from("body")),
    expected: `other ${message(type, Buffer.from("body")).toString("latin1")}`,
  })),
);

test("messages are returned as they were sent, wherever the chunks are cut", () => {
  fc.assert(
    fc.property(
      fc.array(sent, { maxLength: 30 }),
      fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1 }),
      (all, cuts) => {
        const received: string[] = [];
        const large: { bytes: Buffer; at: number; text: string }[] = [];
        const reader = new CopyBothReader(
          {
            onMessage: (bytes, at, end) => received.push(`data ${bytes.toString("utf8", at, end)}`),
            onLargeMessage: (bytes, at, end) => {
              expect(at).toBeGreaterThanOrEqual(largeMessagePadding);
              const text = bytes.toString("utf8", at, end);
              received.push(`data ${text}`);
              large.push({ bytes, at, text });
            },
            onKeepalive: (walEnd, reply) => received.push(`keepalive ${walEnd} ${reply}`),
            onOther: (bytes) => received.push(`other ${bytes.toString("latin1")}`),
          },
          () => null,
          150_000,
        );
        const stream = Buffer.concat(all.map(({ bytes }) => bytes));
        for (let at = 0, i = 0; at < stream.length; i++) {
          const next = Math.min(stream.length, at + cuts[i % cuts.length]! * (i % 7 === 0 ? 50 : 1));
          // A chunk belongs to the socket, which overwrites it after it was read.
          const chunk = Buffer.from(stream.subarray(at, next));
          reader.push(chunk);
          chunk.fill(0xff);
          at = next;
        }
        expect(received).toEqual(all.map((each) => each.expected));
        for (const { bytes, at, text } of large) expect(bytes.toString("utf8", at)).toBe(text);
      },
    ),
    { numRuns: 60 },
  );
});
