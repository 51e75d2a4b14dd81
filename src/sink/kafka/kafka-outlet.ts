// Where rows of the stream or of a chunk go: each becomes a message, or is parked. Rows are counted when they are sealed, or when there are so
// many.

import type { ReceiptBook } from "../delivery/receipts/receipt-book.ts";
import type { PlannedRow } from "../delivery/stream/request-plan.ts";
import type { Outlet, Sent } from "../delivery/transport.ts";
import type { CompiledTable } from "../format/compiled-table.ts";
import type { KafkaTable, MessageWriter } from "./message-writer.ts";
import { isRefusal, type KafkaParking } from "./parking/kafka-parking.ts";
import type { ProducerLog } from "./produce/producer-log.ts";

export interface KafkaOutletOptions {
  readonly sent: Sent;
  readonly countEvery: number;
  readonly log: Pick<ProducerLog, "hasCapacity" | "untilCapacity" | "isOver">;
  readonly writer: Pick<MessageWriter, "addRow">;
  /** Null: nothing is parked. */
  readonly parking: KafkaParking | null;
  /** Null: no receipts are kept. */
  readonly book: Pick<ReceiptBook, "hasSpace" | "untilSpace"> | null;
  /** Null: with transactions. Otherwise resolves when brokers have taken all that was added. */
  readonly seal: (() => Promise<void>) | null;
  readonly flushIntervalMs: number;
}

export class KafkaOutlet implements Outlet {
  #rows = 0;
  #bytes = 0;
  /** Of messages that are of no row, and on their way. */
  #others: (() => void)[] = [];

  constructor(private readonly options: KafkaOutletOptions) {}

  addRow(table: CompiledTable, row: PlannedRow): void {
    this.#bytes += this.#add(table as KafkaTable, row);
    if (++this.#rows >= this.options.countEvery) this.seal();
  }

  /** A message of no row was added. Nothing but a row ends a window: it is not to wait for the next one. */
  addOther(bytes: number): void {
    const { sent, seal, flushIntervalMs } = this.options;
    this.#others.push(sent(0, bytes));
    if (!seal) this.seal();
    else if (this.#others.length === 1) setTimeout(() => this.seal(), flushIntervalMs);
  }

  seal(): void {
    const { sent, seal, parking } = this.options;
    if (this.#rows === 0 && this.#others.length === 0) return;
    const delivered = this.#rows === 0 ? this.#others : [sent(this.#rows, this.#bytes), ...this.#others];
    this.#rows = 0;
    this.#bytes = 0;
    this.#others = [];
    const tell = () => delivered.forEach((each) => void each());
    if (!seal) tell();
    // A round that fails ends the session, and so does what cannot be parked.
    else Promise.all([seal(), parking?.stored()]).then(tell, () => undefined);
  }

  get hasCapacity(): boolean {
    const { log, parking, book } = this.options;
    return log.hasCapacity && (parking?.hasCapacity ?? true) && (book?.hasSpace ?? true);
  }

  async untilCapacity(): Promise<void> {
    const { log, parking, book } = this.options;
    await log.untilCapacity();
    // Where that fails the session ends.
    if (parking && !parking.hasCapacity) await parking.untilCapacity().catch(() => undefined);
    if (!log.isOver) await book?.untilSpace();
  }

  /** Returns the bytes of what is sent of it: nothing, where it is parked. */
  #add(table: KafkaTable, row: PlannedRow): number {
    const { parking, writer } = this.options;
    if (parking?.takes(table, row)) return 0;
    try {
      return writer.addRow(table, row);
    } catch (error) {
      if (!parking || !isRefusal(error)) throw error;
      parking.refuse(table, row, error);
      return 0;
    }
  }
}
