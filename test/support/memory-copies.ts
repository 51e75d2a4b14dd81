// The copies of a memory sink: each call is one change of its store.

import type { TupleForm } from "../../src/change/change-batch.ts";
import { copiesLogPrefix } from "../../src/change/checkpoint.ts";
import { chunkedCopyFingerprint } from "../../src/change/copy-fingerprint.ts";
import { qualifiedName, type TableShape } from "../../src/change/relation.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import type { CopyChunk, CopyMode, CopySink, StreamDuring, TableCopy } from "../../src/sink/copy-sink.ts";
import type { SinkContext } from "../../src/sink/sink.ts";
import { decodedRows } from "./decoded-changes.ts";
import {
  type BegunCopy,
  endCopy,
  type HeldTable,
  incompleteKeys,
  type MemoryStore,
  takeChunk,
  takeKeys,
  tell,
} from "./memory-store.ts";

export class MemoryCopies implements CopySink {
  /** OIDs of tables whose first copies are being made beside the stream. */
  readonly underWay = new Set<number>();

  constructor(
    private readonly store: MemoryStore,
    private readonly context: Pick<SinkContext, "signal" | "events">,
  ) {}

  async begin(
    shape: TableShape,
    mode: CopyMode,
    stream: StreamDuring,
    stop: AbortSignal,
  ): Promise<TableCopy> {
    const { store, underWay } = this;
    const { events } = this.context;
    const { id, key } = shape.relation;
    const signal = AbortSignal.any([this.context.signal, stop]);
    const mark = JSON.stringify([chunkedCopyFingerprint(shape), mode]);
    const during = await store.change(({ checkpoint, tables }) => {
      const table = tables.get(id)!;
      const goesOn =
        key.length > 0 && table.copy?.mark === mark && !checkpoint?.log?.startsWith(copiesLogPrefix);
      if (!goesOn) table.copy = { mark, done: [], points: [] };
      return key.length > 0 && table.setAside === null ? stream : "waits";
    }, signal);
    if (during === "runs" && mode === "initial") underWay.add(id);
    const change = <T>(apply: (copy: BegunCopy, table: HeldTable) => T): Promise<T> =>
      store.change(({ tables }) => {
        const table = tables.get(id);
        if (table?.copy?.mark !== mark) throw tableChanged(shape);
        return apply(table.copy, table);
      }, signal);
    return {
      stream: during,
      start: async (isDivided) => {
        const done = await change((copy) => copy.done);
        const rows = done.reduce((sum, range) => sum + range.rows, 0);
        return { form: "text", ranges: isDivided && key.length > 0 ? { done, rows } : null };
      },
      take: async (chunk) => {
        const rows = await decodedRows(chunk, signal);
        await change((copy, table) => takeChunk(table, copy, chunk, rows));
        chunk.progress(rows.length, 0);
      },
      // A chunk is in its place once it was taken.
      settle: () => change(() => "all"),
      finish: async () => {
        const incomplete = await change((copy, table) => {
          const keys = incompleteKeys(table);
          if (keys.length === 0) endCopy(table, copy, mode);
          return keys;
        });
        tell(store.held, events, false);
        return { left: incomplete.length > 0 ? "more" : "all", incomplete };
      },
      [Symbol.asyncDispose]: async () => void underWay.delete(id),
    };
  }

  rowsForm(): TupleForm {
    return "text";
  }

  async takeRows(chunk: CopyChunk): Promise<void> {
    const { signal } = this.context;
    const rows = await decodedRows(chunk, signal);
    const keys = chunk.part?.kind === "rows" ? chunk.part.keys : [];
    const { table, lsn } = chunk;
    await this.store.change(
      ({ tables }) => takeKeys(tables.get(table.relation.id)!, keys, rows, lsn),
      signal,
    );
  }
}

function tableChanged({ relation }: TableShape): MillraceError {
  return new MillraceError("table_changed", `${qualifiedName(relation)} is not what it was.`);
}
