// Handles the messages about copies. It knows which copies are under way, and which of their chunks, and decides whether the stream can go
// on meanwhile.

import { isStillCopyOf } from "../../../change/copy-fingerprint.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { MillraceError, toMillraceError } from "../../../errors/millrace-error.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { OperationFilter } from "../../format/message-encoding.ts";
import type { CopyMessage, FromDelivery } from "../line/line-messages.ts";
import { holdsCopy, withMissed } from "../record/sink-record.ts";
import type { ChangedRow, ChangeWatch } from "../stream/change-rows.ts";
import { BlockingMessageCopy } from "./blocking-copy.ts";
import { type ChunkOptions, copyCancelled } from "./chunk-rows.ts";
import type { Chunk, DeliveryContext } from "./copy-context.ts";
import { IncrementalMessageCopy } from "./incremental-copy.ts";
import { canStreamGoOn } from "./recorded-copies.ts";
import { replayBlocker } from "./replay.ts";

export interface DeliveryCopiesOptions {
  readonly chunk: Omit<ChunkOptions, "progress">;
  readonly filter: OperationFilter;
  /** Rows of a table's copy that are taken and not delivered; no more are taken then. */
  readonly maxUndelivered: number;
  readonly table: (handle: number) => CompiledTable;
  readonly begun: () => DeliveryContext;
  readonly send: (message: FromDelivery) => void;
  readonly failed: (error: unknown) => void;
  /** Called when a chunk is delivered, durably: the stream may have to come to its point. */
  readonly delivered: () => void;
  /** So many touched keys a copy remembers while the stream runs. Absent: as many as memory has room for. */
  readonly maxTouched?: number;
}

type CopyUnderWay = BlockingMessageCopy | IncrementalMessageCopy;

export class DeliveryCopies implements ChangeWatch {
  readonly #copies = new Map<number, CopyUnderWay>();
  readonly #chunks = new Map<number, Chunk>();
  /** Tables of which the stream touched more than can be kept in mind: it waits for their next copy. */
  readonly #overflowed = new Set<string>();

  constructor(private readonly options: DeliveryCopiesOptions) {}

  /** Returns when the next message may be handled. */
  async handle(message: CopyMessage): Promise<void> {
    switch (message.type) {
      case "copy.begin":
        return await this.#begin(message);
      case "copy.start":
        return this.#ask(message, async (copy) => copy.start(message.isDivided));
      case "copy.chunk":
        return this.#ask(message, (copy) => this.#beginChunk(message, copy));
      case "copy.rows":
        return this.#takeRows(message);
      case "copy.chunk-end":
        return this.#endChunk(message);
      case "copy.chunk-cancel":
        this.#chunks.get(message.chunk)?.rows.cancel();
        this.#chunks.delete(message.chunk);
        return;
      case "copy.left":
        return this.#ask(message, async (copy) =>
          copy instanceof IncrementalMessageCopy ? copy.left() : [],
        );
      case "copy.finish":
        return this.#ask(message, (copy) => copy.finish());
      case "copy.end":
        return this.#end(message.copy);
      default:
        message satisfies never;
    }
  }

  /**
   * Looks at the tables that the stream will bring. A copy of a table that is another by now does not count when it is made: the stream's
   * changes are of the other one. Returns names of first copies that are under way.
   */
  look(tables: readonly TableShape[]): ReadonlySet<string> {
    const names = new Set<string>();
    for (const copy of this.#copies.values()) {
      const { shape, isFirst } = copy.subject;
      if (!isIncrementalOf(copy, shape.relation)) continue;
      const table = tables.find(({ relation }) => relation.id === shape.relation.id);
      if (!isStillCopyOf(shape, table)) copy.spoil("is not what it was");
      if (isFirst && table && copy.isSound) names.add(qualifiedName(table.relation));
    }
    return names;
  }

  watches({ relation }: CompiledTable): boolean {
    for (const copy of this.#copies.values()) if (isIncrementalOf(copy, relation)) return true;
    return false;
  }

  see(row: ChangedRow): void {
    for (const copy of this.#copies.values()) if (isIncrementalOf(copy, row.table.relation)) copy.see(row);
  }

  /** The stream waits for one of them. */
  get holdStream(): boolean {
    return this.#copies.values().some((copy) => copy instanceof BlockingMessageCopy);
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    for (const copy of this.#copies.values()) copy.breakOff();
  }

  async #begin(message: CopyMessage<"begin">): Promise<void> {
    const { id, copy, handle, table: shape, mode, stream, replay = null } = message;
    const { begun, maxUndelivered, maxTouched, filter } = this.options;
    const blocker = replay && replayBlocker(shape, filter);
    if (blocker !== null) return this.#fail(id, new MillraceError("unsupported_kind", blocker));
    const delivering = begun();
    const table = this.options.table(handle);
    const isCopied = holdsCopy(delivering.keeper.record.copied, table.name);
    // For a replay the table may have a copy or not: nothing changes for it.
    const isFirst = mode === "initial" || (!isCopied && replay === null);
    const subject = { table, shape, mode, isFirst, replay };
    const isIncremental = replay !== null || this.#canStreamGoOn(message);
    if (mode === "initial") this.#spoilOthers(table);
    if (isFirst && stream === "runs") await this.#expectChanges(message, table);
    const underWay = isIncremental
      ? new IncrementalMessageCopy(subject, delivering, maxUndelivered, maxTouched)
      : new BlockingMessageCopy(subject, delivering, maxUndelivered);
    this.#copies.set(copy, underWay);
    this.#reply(id, isIncremental ? "runs" : "waits");
  }

  /** Rows of a replay, or of a task's copy, may be older than those of the first copy, and would come after them. They are sent again later. */
  #spoilOthers({ name }: CompiledTable): void {
    for (const copy of this.#copies.values())
      if (copy instanceof IncrementalMessageCopy && copy.subject.table.name === name)
        copy.spoil("got a first copy");
  }

  #canStreamGoOn({ table: { relation, coverage }, mode, stream }: CopyMessage<"begin">): boolean {
    const isInitial = mode === "initial";
    if (stream === "waits" && !isInitial) return false;
    const hasOverflowed = this.#overflowed.delete(qualifiedName(relation));
    // A table is published before its initial copy.
    const isPublished = isInitial || coverage?.isUnpublished !== true;
    const canGoOn = !hasOverflowed && isPublished && canStreamGoOn(relation, this.options.filter);
    return stream === "runs" && canGoOn;
  }

  /**
   * Changes of the table may come before its first copy. That is durable on return: the copy's rows get a version above theirs. Of a table
   * without a key they do not come, as the copy brings the same rows.
   */
  async #expectChanges({ table: shape, mode }: CopyMessage<"begin">, table: CompiledTable): Promise<void> {
    const { keeper, keyless } = this.options.begun();
    if (table.relation.key.length === 0) {
      if (mode === "initial") keyless.expect(table.name);
      return;
    }
    const { copied } = keeper.record;
    const missed = withMissed(copied, [shape]);
    if (missed === copied) return;
    keeper.change({ copied: missed });
    await keeper.save();
  }

  async #beginChunk(message: CopyMessage<"chunk">, copy: CopyUnderWay): Promise<null> {
    const { chunk } = message;
    const progress = (rows: number, bytes: number) =>
      this.options.send({ type: "copy.progress", chunk, rows, bytes });
    const begun = await copy.begin(message, { ...this.options.chunk, progress });
    this.#chunks.set(chunk, begun);
    await begun.rows.begin();
    return null;
  }

  #takeRows({ chunk: number, isIncremental, batch, bytes }: CopyMessage<"rows">): void {
    const taken = this.#chunks.get(number)?.rows.take(batch) ?? Promise.resolve();
    const credit = () => this.options.send({ type: "credit", bytes, chunk: number, isIncremental });
    taken.then(credit).catch((error: unknown) => this.options.failed(error));
  }

  #endChunk({ id, chunk: number }: CopyMessage<"chunk-end">): void {
    const chunk = this.#chunks.get(number);
    const ended = chunk ? chunk.end() : Promise.reject(copyCancelled());
    const isOver = () => this.#chunks.delete(number);
    this.#answer(id, ended.then(this.options.delivered).finally(isOver));
  }

  #end(number: number): void {
    const copy = this.#copies.get(number);
    if (!copy) return;
    copy.end();
    if (isIncrementalOf(copy, copy.subject.shape.relation) && copy.hasOverflowed)
      this.#overflowed.add(copy.subject.table.name);
    this.#copies.delete(number);
  }

  #ask(
    { id, copy }: { readonly id: number; readonly copy: number },
    work: (copy: CopyUnderWay) => Promise<unknown>,
  ): void {
    const found = this.#copies.get(copy);
    this.#answer(id, found ? work(found) : Promise.reject(copyCancelled()));
  }

  /** Other copies, and the stream, go on meanwhile. */
  #answer(id: number, work: Promise<unknown>): void {
    work.then(
      (answer) => this.#reply(id, answer),
      (error: unknown) => this.#fail(id, error),
    );
  }

  #reply(id: number, answer: unknown): void {
    this.options.send({ type: "reply", id, answer });
  }

  /** A copy that does not count ends nothing else. */
  #fail(id: number, error: unknown): void {
    const { code, message } = toMillraceError(error);
    if (code === "table_changed" || code === "sink_connection_lost" || code === "unsupported_kind")
      this.options.send({ type: "refused", id, code, message });
    else this.options.failed(error);
  }
}

function isIncrementalOf(copy: CopyUnderWay, { id }: Relation): copy is IncrementalMessageCopy {
  return copy instanceof IncrementalMessageCopy && copy.subject.shape.relation.id === id;
}
