// The copies of tables that are on their way, several at once: with which version each is sent, and when it
// is recorded.

import { noStream } from "../../change/checkpoint.ts";
import type { CompiledTable } from "./compiled-table.ts";
import type { LineBatch, ToDelivery } from "./line-messages.ts";
import type { RecordKeeper } from "./record-keeper.ts";
import type { StreamWindows } from "./stream-windows.ts";
import { TableCopy, type TableCopyOptions } from "./table-copy.ts";

export interface TableCopiesOptions extends Omit<TableCopyOptions, "progress"> {
  readonly progress: (copy: number, rows: number, bytes: number) => void;
}

export class TableCopies {
  readonly #copies = new Map<number, TableCopy>();

  constructor(private readonly options: TableCopiesOptions) {}

  /**
   * Opens a copy. A first copy carries the version of the place where the stream began: each change of a
   * row that the stream brings is newer, also when an interrupted copy was made again at a later point. Any
   * other copy, and one of a table that was copied before, gets a version of its own, above all that were
   * given out, which is durable before the first row is sent. So does one at a later point where no stream
   * follows: its rows may be others than those of the copy that was interrupted, and nothing else brings them.
   */
  async begin(
    message: Extract<ToDelivery, { type: "copy.begin" }>,
    table: CompiledTable,
    keeper: RecordKeeper,
    stream: StreamWindows,
  ): Promise<void> {
    const { copy, lsn, timeUs, mode } = message;
    const { origin, copied, log } = keeper.record;
    let from = { version: Number(origin.version), timeUs: Number(origin.version), lsn: origin.lsn };
    const isLater = log?.startsWith(noStream) && timeUs !== origin.version;
    if (mode !== "initial" || isLater || copied.has(table.name)) {
      await stream.flush();
      from = { version: await stream.copyVersion(timeUs), timeUs: Number(timeUs), lsn };
    }
    // What was broken off of the table is not gone on with.
    for (const [other, { table: of }] of this.#copies) if (of.name === table.name) this.#copies.delete(other);
    const progress = (rows: number, bytes: number) => this.options.progress(copy, rows, bytes);
    this.#copies.set(copy, new TableCopy(table, from, lsn, { ...this.options, progress }));
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    for (const copy of this.#copies.values()) copy.breakOff();
  }

  async take(number: number, batch: LineBatch): Promise<void> {
    const copy = this.#copies.get(number);
    await copy?.take({ ...batch, relations: [copy.table.relation] });
  }

  /** Resolves when all rows are delivered and that they are is durable. */
  async end(number: number, mark: string, keeper: RecordKeeper): Promise<void> {
    const copy = this.#copies.get(number);
    if (!copy) return;
    await copy.finish();
    this.#copies.delete(number);
    const { name } = copy.table;
    keeper.change({
      copied: new Map(keeper.record.copied).set(name, { identity: mark, lsn: copy.lsn }),
    });
    await keeper.save();
  }
}
