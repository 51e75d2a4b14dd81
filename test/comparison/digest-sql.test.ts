// What a scan tells the server beside its statement.

import { expect, test } from "bun:test";
import { scanValues } from "../../src/comparison/digest-sql.ts";

test("the buckets whose rows are read are told as bits, in the order of `get_bit`", () => {
  const [setting] = scanValues({ kind: "rows", buckets: 64, among: [0, 9, 63] });
  expect([...Buffer.from(setting!.value, "base64")]).toEqual([0b1, 0b10, 0, 0, 0, 0, 0, 0b1000_0000]);
});
