// The receipts of one session's messages. With transactions they are staged before each commit; without them they are saved with the record,
// once brokers have the messages.

import type { OpenRequest, RowQuestion } from "../../../connector/receipts.ts";
import { unsavedRequests } from "../../delivery/receipts/open-requests.ts";
import type { ReceiptBook } from "../../delivery/receipts/receipt-book.ts";
import { ReceiptKeeping, type ReceiptPlace } from "../../delivery/receipts/receipt-keeping.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { ProducerLog } from "../produce/producer-log.ts";
import type { PartitionQueue } from "../produce/round.ts";
import { MessageReceipts } from "./message-receipts.ts";
import { StagedReceipts } from "./staged-receipts.ts";

export interface KafkaReceiptsOptions {
  readonly place: ReceiptPlace;
  readonly isTransactional: boolean;
  /** In the service's state. */
  readonly state: CheckpointStore;
  readonly log: Pick<ProducerLog, "seal" | "waitFor">;
  readonly monotonic: () => number;
}

/** What is not stored by then is stored when the connector runs again. */
const lastSaveMs = 300;

export class KafkaReceipts {
  readonly keeping: ReceiptKeeping;
  /** The record in the state: its saves have receipts. */
  readonly record: CheckpointStore;
  /** Null: without transactions. */
  readonly staged: StagedReceipts | null;
  readonly #gathered = new MessageReceipts();
  readonly #place: ReceiptPlace;
  readonly #log: Pick<ProducerLog, "seal">;
  readonly #monotonic: () => number;
  /** Null: nothing has begun. */
  #save: (() => Promise<void>) | null = null;

  constructor({ place, isTransactional, state, log, monotonic }: KafkaReceiptsOptions) {
    this.#place = place;
    this.#log = log;
    this.#monotonic = monotonic;
    this.keeping = new ReceiptKeeping(place);
    this.record = this.keeping.store(state);
    const { book } = this.keeping;
    this.staged = isTransactional
      ? new StagedReceipts({
          gathered: this.#gathered,
          book,
          record: this.record,
          log,
          newId: () => Bun.randomUUIDv7(),
          nowMs: place.nowMs,
          monotonic,
        })
      : null;
  }

  get book(): ReceiptBook {
    return this.keeping.book;
  }

  /** The row's message is added to the queue next. */
  add(table: CompiledTable, row: PlannedRow, queue: PartitionQueue): void {
    this.staged?.makeRoom();
    this.#gathered.add(table, row, queue);
  }

  /** `save`: of the record, where it has the receipts. */
  saveBy(save: () => Promise<void>): void {
    const { staged } = this;
    this.#save = staged ? () => staged.confirm() : save;
    this.book.save = () => void this.saved().catch(() => undefined);
  }

  /** Resolves when the receipts that there are now are durable. */
  async saved(): Promise<void> {
    await this.#save?.();
  }

  /** Without transactions: all that was added is sent now. Resolves when brokers have it, and its receipts wait for the next save. */
  async seal(): Promise<void> {
    const taken = this.#gathered.take();
    const atMs = this.#place.nowMs();
    const beganMs = this.#monotonic();
    await this.#log.seal();
    const ms = Math.round(this.#monotonic() - beganMs);
    for (const receipt of taken?.receipts(atMs, ms) ?? []) this.book.add(receipt);
  }

  find(question: RowQuestion): readonly OpenRequest[] {
    return [
      ...unsavedRequests(this.book.unsaved, question),
      ...(this.staged?.find(question) ?? []),
      ...this.#gathered.find(question),
    ];
  }

  async close(): Promise<void> {
    const saved = this.staged?.confirm().catch(() => undefined);
    await Promise.race([saved, new Promise((resolve) => setTimeout(resolve, lastSaveMs))]);
    this.book.close();
  }
}
