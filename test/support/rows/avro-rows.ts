// Rows of text tuples through an encoder, for tests of what comes out.

import { lsn } from "../../../src/change/lsn.ts";
import type { KeyEncoder } from "../../../src/sink/format/key-encoder.ts";
import type { RowContext, RowEncoder } from "../../../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../../src/sink/format/values/tuple-view.ts";
import { type TextTuple, tupleBytes } from "./batch-fixture.ts";

export const sampleContext: RowContext = {
  operation: "create",
  version: 1_700_000_000_000_001,
  oldIsKey: false,
  commitTimeUs: 1_700_000_000_123_456,
  commitLsn: lsn(24_023_128n),
  place: 24_023_000,
  totalOrder: 0,
  tableOrder: 0,
  xid: 571,
  snapshot: false,
};

/** The bytes of one row. */
export function encodedRow(
  encoder: RowEncoder,
  tuples: { readonly before?: TextTuple; readonly after?: TextTuple },
  context: Partial<RowContext> = {},
): Uint8Array<ArrayBuffer> {
  const parts = [tuples.before, tuples.after].map((tuple) => (tuple ? tupleBytes(tuple) : new Uint8Array()));
  const arena = new Uint8Array(Buffer.concat(parts));
  const before = new TupleView();
  const after = new TupleView();
  before.read(arena, 0, parts[0]!.length);
  after.read(arena, parts[0]!.length, arena.length);
  after.completeFrom(before);
  const out = new ByteWriter(8);
  encoder.writeRow(out, arena, before, after, { ...sampleContext, ...context });
  return out.slice();
}

/** The bytes of one row's key. */
export function encodedKey(encoder: KeyEncoder, tuple: TextTuple): Uint8Array<ArrayBuffer> {
  const arena = tupleBytes(tuple);
  const view = new TupleView();
  view.read(arena, 0, arena.length);
  const out = new ByteWriter(8);
  encoder.writeKey(out, arena, view);
  return out.slice();
}
