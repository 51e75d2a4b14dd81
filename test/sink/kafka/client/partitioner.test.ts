import { describe, expect, test } from "bun:test";
import { murmur2 as murmur2OfClient } from "@platformatic/kafka";
import fc from "fast-check";
import { murmur2, partitionOf } from "../../../../src/sink/kafka/client/partitioner.ts";

const hash = (bytes: Uint8Array) => murmur2(bytes, bytes.length);

describe("murmur2", () => {
  // https://github.com/apache/kafka/blob/trunk/clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java
  test.each([
    ["21", -973932308],
    ["foobar", -790332482],
    ["a-little-bit-long-string", -985981536],
    ["a-little-bit-longer-string", -1486304829],
    ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971],
    ["abc", 479470107],
  ])("of %s is what Apache's is", (text, expected) => {
    expect(hash(Buffer.from(text))).toBe(expected);
  });

  test("of bytes of any kind and number is that of the client", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(hash(bytes)).toBe(murmur2OfClient(Buffer.from(bytes)));
      }),
    );
  });

  test("takes no more of the memory than the key", () => {
    expect(murmur2(Buffer.from("foobar and what was there before"), 6)).toBe(-790332482);
  });
});

describe("a key's partition", () => {
  test("is the hash without its sign, modulo their number", () => {
    const key = Buffer.from("foobar");
    expect(partitionOf(key, key.length, 7)).toBe((-790332482 & 0x7fffffff) % 7);
    expect(partitionOf(key, key.length, 1)).toBe(0);
  });

  test("is there, whatever the key", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.integer({ min: 1, max: 1000 }), (bytes, partitions) => {
        const partition = partitionOf(bytes, bytes.length, partitions);
        expect(partition >= 0 && partition < partitions).toBe(true);
      }),
    );
  });
});
