// How a value of Postgres' text form is written in Avro's binary encoding.

import type { ByteWriter } from "../values/byte-writer.ts";

/** The branches of the union `["null", T]`, as they are written. */
export const isNull = 0;
export const isValue = 2;

/**
 * Writes the value at `source[start, end)`, which is not null, at the end of `out`. False: the Avro type cannot hold it. The caller then
 * removes what was written, and writes null where the field allows that.
 */
export type AvroWriter = (out: ByteWriter, source: Uint8Array, start: number, end: number) => boolean;
