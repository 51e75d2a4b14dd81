// The Idempotency-Key of a message of one row, from what a receipt keeps of the row: it need not be kept.

import { IdempotencyKey, type RowPart, tableMaterial } from "../../format/idempotency-key.ts";
import { tupleOfTexts } from "./tuple-of-texts.ts";

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
  const { arena, view, columns } = tupleOfTexts(key);
  const made = new IdempotencyKey(tableMaterial(schema, name));
  made.addRow(arena, view, columns, {
    commitTimeUs,
    ordinal,
    part: part as RowPart,
  });
  return made.finish();
}
