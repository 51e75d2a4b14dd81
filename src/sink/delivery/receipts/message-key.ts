// The Idempotency-Key of a message of one row, from what a receipt keeps of the row: it need not be kept.

import { IdempotencyKey, type RowPart, tableMaterial } from "../../format/idempotency-key.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";

export interface MessagePlace {
  readonly commitTimeUs: number;
  readonly ordinal: number;
  readonly part: number;
}

/** `key`: texts of the row's key. */
export function messageKey(
  { schema, name, key }: { readonly schema: string; readonly name: string; readonly key: readonly string[] },
  { commitTimeUs, ordinal, part }: MessagePlace,
): string {
  const texts = key.map((text) => new TextEncoder().encode(text));
  const arena = new Uint8Array(Buffer.concat(texts));
  let at = 0;
  const starts = Int32Array.from(texts, ({ length }) => {
    at += length;
    return at - length;
  });
  const lengths = Int32Array.from(texts, ({ length }) => length);
  const packed: readonly number[] = [];
  const made = new IdempotencyKey(tableMaterial(schema, name));
  const columns = texts.map((_, i) => i);
  made.addRow(arena, { starts, lengths, packed } as TupleView, columns, {
    commitTimeUs,
    ordinal,
    part: part as RowPart,
  });
  return made.finish();
}
