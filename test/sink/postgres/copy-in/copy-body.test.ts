import { expect, test } from "bun:test";
import { copyBody } from "../../../../src/sink/postgres/copy-in/copy-body.ts";
import { binaryHeader, binaryTrailer } from "../../../../src/sink/postgres/copy-in/copy-in.ts";

/** A tuple of one value, between other bytes. */
function tuple(length: number, fill: number) {
  const bytes = Buffer.alloc(length + 16, 0xee);
  bytes.writeInt16BE(1, 5);
  bytes.writeInt32BE(length, 7);
  bytes.fill(fill, 11, 11 + length);
  return { bytes: new Uint8Array(bytes), start: 5, end: 11 + length };
}

test("tuples of any length lie one behind the other, and a body that was given back is not read as an empty one", () => {
  const lengths = [0, 1, 30, 100, 5_000, 70_000, 200_000, 3, 300_000, 64];
  const body = copyBody("binary");
  const expected: Uint8Array[] = [binaryHeader];
  lengths.forEach((length, i) => {
    const { bytes, start, end } = tuple(length, i);
    body.add({ bytes, start, end });
    body.addGrouped(-2, { bytes, start, end });
    expected.push(bytes.subarray(start, end));
    expected.push(Buffer.from([0, 2, 0, 0, 0, 4, 255, 255, 255, 254]), bytes.subarray(start + 2, end));
  });
  const read = Buffer.concat([...body.chunks()]);
  expect(read.equals(Buffer.concat([...expected, binaryTrailer]))).toBe(true);
  expect(body.rows).toBe(2 * lengths.length);
  body.release();
  expect(() => [...body.chunks()]).toThrow();
});
