// What a copy works with, whether the stream waits for it or goes on beside it.

import type { TableShape } from "../../../change/relation.ts";
import type { CopyMode } from "../../copy-sink.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { ReplayOf } from "../../replay-sink.ts";
import type { CopyMessage } from "../line/line-messages.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import type { StreamWindows } from "../stream/stream-windows.ts";
import type { ChunkRows } from "./chunk-rows.ts";
import type { KeylessCopies } from "./keyless-copies.ts";
import type { RecordedCopies } from "./recorded-copies.ts";

/** What a session delivers beside the copies, and where it records what is copied. */
export interface DeliveryContext {
  readonly keeper: RecordKeeper;
  readonly stream: StreamWindows;
  readonly recorded: RecordedCopies;
  readonly keyless: KeylessCopies;
}

export interface CopySubject {
  readonly table: CompiledTable;
  readonly shape: TableShape;
  readonly mode: CopyMode;
  /** The table has no copy. */
  readonly isFirst: boolean;
  /** Its rows are sent again; null: they are copied. */
  readonly replay: ReplayOf | null;
}

/** What a chunk has, and what it is as of. */
export type ChunkPlace = Pick<CopyMessage<"chunk">, "part" | "lsn" | "timeUs">;

/** A chunk under way. */
export interface Chunk {
  readonly rows: ChunkRows;
  /** All rows have come. Returns when that they are delivered is durable. Throws where they do not count. */
  readonly end: () => Promise<void>;
}
