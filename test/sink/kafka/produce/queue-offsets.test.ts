// Offsets of messages of a partition, as brokers tell them batch by batch.

import { expect, test } from "bun:test";
import { QueueOffsets } from "../../../../src/sink/kafka/produce/queue-offsets.ts";

test("each message has the offset that its batch was given", () => {
  const offsets = new QueueOffsets();
  // Nobody asks for the first two.
  offsets.took(2, 100);
  for (let i = 0; i < 4; i++) offsets.await();
  offsets.took(2, 103);
  offsets.took(2, -1);
  expect([2, 3, 4, 6].map((message) => offsets.of(message))).toEqual([103, 104, Number.NaN, Number.NaN]);
  offsets.forget(4, 5);
  offsets.await();
  offsets.took(1, 110);
  expect([3, 6].map((message) => offsets.of(message))).toEqual([Number.NaN, 110]);
});

test("what comes later is kept when what came earlier is forgotten", () => {
  const offsets = new QueueOffsets();
  for (let i = 0; i < 4; i++) offsets.await();
  offsets.took(3, 10);
  offsets.took(1, 20);
  offsets.forget(2, 1);
  expect([2, 3].map((message) => offsets.of(message))).toEqual([12, 20]);
});
