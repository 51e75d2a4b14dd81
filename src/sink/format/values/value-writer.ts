// How a value of Postgres' text form is written into a message.

import type { ByteWriter } from "./byte-writer.ts";

/** Writes the value at `source[start, end)`, which is not null, as one JSON value. */
export type ValueWriter = (out: ByteWriter, source: Uint8Array, start: number, end: number) => void;
