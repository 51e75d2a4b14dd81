// Sends batches, and rows of copies, over the line from the sink's end.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import { CopyTextParser } from "../../../change/copy-text.ts";
import type { Relation } from "../../../change/relation.ts";
import { Semaphore } from "../../../concurrency/semaphore.ts";
import { GcPacer } from "../../../memory/gc-pacer.ts";
import { StreamGarbage, smallProcessBytes } from "../../../memory/stream-garbage.ts";
import type { CopyChunk } from "../../copy-sink.ts";
import type { DeliveryClient } from "./delivery-client.ts";
import { parcel, RelationHandles } from "./line-batch.ts";

/** The chunk that rows are of. `isIncremental`: the stream goes on meanwhile. */
interface ChunkAtLine {
  readonly chunk: number;
  readonly isIncremental: boolean;
}

export class SinkLine {
  readonly #handles = new RelationHandles();
  readonly #longRows = new Semaphore();
  readonly #garbage = new StreamGarbage(smallProcessBytes);
  #chunks = 0;

  constructor(readonly client: DeliveryClient) {}

  /** The relation's number at the other end. */
  handle(relation: Relation): number {
    const { handle, isNew } = this.#handles.handle(relation);
    if (isNew) this.client.post({ type: "relation", handle, relation });
    return handle;
  }

  /** Sends changes once the other end can take them. */
  async sendChanges(batch: ChangeBatch): Promise<void> {
    await this.#send(batch, null);
  }

  /** Sends a chunk of a copy. Returns when it is durable that the chunk is delivered. */
  async sendChunk(rows: CopyChunk, copy: number, isIncremental: boolean): Promise<void> {
    const { client } = this;
    const { lsn, timeUs, table, part = null } = rows;
    const chunk = ++this.#chunks;
    client.onProgress(chunk, rows.progress);
    try {
      await client.ask({ type: "copy.chunk", copy, chunk, part, lsn, timeUs });
      const parser = new CopyTextParser(table.relation, { lsn, timeUs });
      await this.#sendRows(rows.chunks, parser, { chunk, isIncremental });
      await client.ask({ type: "copy.chunk-end", chunk });
    } catch (error) {
      client.post({ type: "copy.chunk-cancel", chunk });
      throw error;
    } finally {
      client.onProgress(chunk, null);
    }
  }

  /** Only one chunk at a time collects a row that takes much memory. */
  async #sendRows(pieces: AsyncIterable<Uint8Array>, parser: CopyTextParser, at: ChunkAtLine): Promise<void> {
    const passing = new GcPacer();
    let release: (() => void) | null = null;
    try {
      for await (const piece of pieces) {
        for (const batch of parser.push(piece)) await this.#send(batch, at);
        if (parser.isInLongRow) {
          release ??= await this.#longRows.acquire();
          passing.released(piece.length);
        } else {
          release?.();
          release = null;
        }
      }
      const last = parser.finish();
      if (last) await this.#send(last, at);
    } finally {
      release?.();
    }
  }

  async #send(batch: ChangeBatch, at: ChunkAtLine | null): Promise<void> {
    const { client } = this;
    const credit = at?.isIncremental ? client.incrementalCredit : client.credit;
    const relations = batch.relations.map((relation) => this.handle(relation));
    await credit.spend(batch.arena.byteLength, at?.chunk ?? null);
    const bytes = batch.arena.byteLength;
    const { batch: moved, transfer } = parcel(batch, relations);
    if (at === null) client.post({ type: "changes", batch: moved, bytes }, transfer);
    else client.post({ type: "copy.rows", ...at, batch: moved, bytes }, transfer);
    // What it was decoded from.
    this.#garbage.released(bytes);
    await credit.settle();
  }
}
