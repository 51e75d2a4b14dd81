// A tuple whose columns are these texts, for code that reads the key of a row from a tuple.

import type { TupleView } from "../../format/values/tuple-view.ts";

export interface TextTuple {
  readonly arena: Uint8Array;
  readonly view: TupleView;
  /** All of them. */
  readonly columns: readonly number[];
}

export function tupleOfTexts(texts: readonly string[]): TextTuple {
  const values = texts.map((text) => new TextEncoder().encode(text));
  let at = 0;
  const starts = Int32Array.from(values, ({ length }) => {
    at += length;
    return at - length;
  });
  const lengths = Int32Array.from(values, ({ length }) => length);
  const packed: readonly number[] = [];
  return {
    arena: new Uint8Array(Buffer.concat(values)),
    view: { starts, lengths, packed } as TupleView,
    columns: texts.map((_, i) => i),
  };
}
