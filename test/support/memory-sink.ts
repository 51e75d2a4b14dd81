// A sink that holds rows in memory: a test double that keeps every promise of src/sink/sink.ts and src/sink/copy-sink.ts. Each call is one
// change of its store; memory-store.ts says what becomes of the rows, memory-copies.ts takes the copies.

import { bytesOfTuples, type ChangeBatch, type TupleForm } from "../../src/change/change-batch.ts";
import type { Checkpoint } from "../../src/change/checkpoint.ts";
import { zeroLsn } from "../../src/change/lsn.ts";
import type { TableShape } from "../../src/change/relation.ts";
import type { PreparedTables, Sink, SinkContext } from "../../src/sink/sink.ts";
import type { UnreadableTable } from "../../src/sink/sink-events.ts";
import { type DecodedChange, decodedChanges } from "./decoded-changes.ts";
import { MemoryCopies } from "./memory-copies.ts";
import { applyChange, type Held, incompleteKeys, type MemoryStore, takeIn, tell } from "./memory-store.ts";

export class MemorySink implements Sink {
  readonly copies: MemoryCopies;
  /** Of a transaction whose end is still to come. */
  readonly #open: DecodedChange[] = [];
  #openBytes = 0;

  constructor(
    private readonly store: MemoryStore,
    private readonly context: Pick<SinkContext, "signal" | "events">,
  ) {
    this.copies = new MemoryCopies(store, context);
  }

  open(): Promise<Checkpoint | null> {
    return this.#change(({ checkpoint }) => checkpoint);
  }

  async begin(checkpoint: Checkpoint): Promise<void> {
    await this.#change((held) => Object.assign(held, { checkpoint }));
  }

  async goOnIn(log: string): Promise<void> {
    await this.#change(({ checkpoint, tables }) => {
      Object.assign(checkpoint ?? {}, { log });
      // The other log may not have all that their chunks are as of.
      for (const table of tables.values()) table.copy = null;
    });
  }

  async forget(): Promise<void> {
    await this.#change((held) => takeIn(Object.assign(held, { checkpoint: null }).tables, []));
  }

  async prepare(
    shapes: readonly TableShape[],
    _: readonly TupleForm[],
    unreadable: readonly UnreadableTable[] = [],
  ): Promise<PreparedTables> {
    const { underWay } = this.copies;
    const prepared = await this.#change(({ checkpoint, tables }) => {
      takeIn(tables, shapes);
      const at = checkpoint?.resumeLsn ?? zeroLsn;
      const all = shapes.map((shape) => ({ shape, table: tables.get(shape.relation.id)! }));
      const missing = all.filter(({ shape, table }) => {
        const { id, schema, name } = shape.relation;
        if (table.copiedAt !== null || underWay.has(id)) return false;
        const why = unreadable.find((each) => each.table.relation.id === id);
        if (why) table.setAside ??= { schema, name, since: at, reason: why.reason, commands: [] };
        return why?.isDue ?? true;
      });
      const incomplete = all.flatMap(({ shape, table }) => {
        const keys = table.copiedAt !== null && table.copiedAt <= at ? incompleteKeys(table) : [];
        return keys.length > 0 ? [{ table: shape, keys }] : [];
      });
      return { missing: missing.map(({ shape }) => shape), incomplete };
    });
    tell(this.store.held, this.context.events, false);
    return { form: "text", behind: [], ...prepared };
  }

  async write(batch: ChangeBatch): Promise<void> {
    this.context.signal.throwIfAborted();
    this.#open.push(...decodedChanges(batch));
    this.#openBytes += bytesOfTuples(batch);
    if (batch.endsInTransaction) return;
    const [changes, bytes] = [this.#open.splice(0), this.#openBytes];
    this.#openBytes = 0;
    const checkpoint = await this.#change((held) => {
      for (const change of changes) {
        this.store.check(change);
        const table = held.tables.get(change.relation.id);
        if (table) applyChange(table, change);
      }
      if (held.checkpoint === null) throw new Error("a write before begin");
      held.checkpoint = { ...held.checkpoint, resumeLsn: batch.resumeLsn };
      return held.checkpoint;
    });
    this.context.events.durable(checkpoint, changes.length, bytes);
    tell(this.store.held, this.context.events, true);
  }

  /** What is whole was durable when it was written. */
  async flush(): Promise<void> {
    this.context.signal.throwIfAborted();
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #change<T>(apply: (held: Held) => T): Promise<T> {
    return this.store.change(apply, this.context.signal);
  }
}
