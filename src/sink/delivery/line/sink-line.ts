// Batches and rows of copies on their way over the line, from the sink's end.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import { CopyTextParser } from "../../../change/copy-text.ts";
import { PassingBytes } from "../../../change/passing-bytes.ts";
import type { Relation } from "../../../change/relation.ts";
import { Turns } from "../../../connection/turns.ts";
import type { CopyRequest } from "../../sink.ts";
import type { DeliveryClient } from "./delivery-client.ts";
import { parcel, RelationHandles } from "./line-batch.ts";

/** A copy, or a range of one, that rows are of. `beside`: the copy beside the stream that it belongs to; null: to none. */
export interface CopyAtLine {
  readonly copy: number;
  readonly beside: number | null;
}

export class SinkLine {
  readonly #handles = new RelationHandles();
  readonly #longRows = new Turns();
  #copies = 0;

  constructor(readonly client: DeliveryClient) {}

  /** What the other end calls the relation. */
  handle(relation: Relation): number {
    const { handle, isNew } = this.#handles.handle(relation);
    if (isNew) this.client.post({ type: "relation", handle, relation });
    return handle;
  }

  /** Sends changes once there is room for them at the other end. */
  async sendChanges(batch: ChangeBatch): Promise<void> {
    await this.#send(batch, null);
  }

  /** Hands rows over, and resolves when `mark`, which they make, is durable where that is to be recorded. Returns why they do not count. */
  async copy(request: CopyRequest, mark: string, beside: number | null): Promise<string | null> {
    const { client } = this;
    const { lsn, timeUs, mode, part = null } = request;
    const { relation } = request.table;
    const at = { copy: ++this.#copies, beside };
    client.onCopyProgress(at.copy, request.progress);
    try {
      const handle = this.handle(relation);
      const begun = await client.ask({ type: "copy.begin", ...at, handle, lsn, timeUs, mode, part });
      if (begun?.spoiledBy) return begun.spoiledBy;
      await this.#sendRows(request, new CopyTextParser(relation, { lsn, timeUs }), at);
      const ended = await client.ask({ type: "copy.end", ...at, mark });
      return ended?.spoiledBy ?? null;
    } catch (error) {
      client.post({ type: "copy.cancel", copy: at.copy });
      throw error;
    } finally {
      client.onCopyProgress(at.copy, null);
    }
  }

  /** Of several copies side by side, one at a time collects a row that takes much memory. */
  async #sendRows({ chunks }: CopyRequest, parser: CopyTextParser, at: CopyAtLine): Promise<void> {
    const passing = new PassingBytes();
    let endTurn: (() => void) | null = null;
    try {
      for await (const chunk of chunks) {
        for (const batch of parser.push(chunk)) await this.#send(batch, at);
        if (parser.isInLongRow) {
          endTurn ??= await this.#longRows.take();
          passing.note(chunk.length);
        } else {
          endTurn?.();
          endTurn = null;
        }
      }
      const last = parser.finish();
      if (last) await this.#send(last, at);
    } finally {
      endTurn?.();
    }
  }

  async #send(batch: ChangeBatch, at: CopyAtLine | null): Promise<void> {
    const { client } = this;
    const { copy = null, beside = null } = at ?? {};
    const isBeside = beside !== null;
    const credit = isBeside ? client.creditBeside : client.credit;
    const relations = batch.relations.map((relation) => this.handle(relation));
    await credit.spend(batch.arena.byteLength, copy);
    const bytes = batch.arena.byteLength;
    const { batch: moved, transfer } = parcel(batch, relations);
    if (copy === null) client.post({ type: "changes", batch: moved, bytes }, transfer);
    else client.post({ type: "copy.rows", copy, isBeside, batch: moved, bytes }, transfer);
    await credit.settle();
  }
}
