// The copies that are on their way, of tables and of parts of tables, several at once: with which version each is sent, and when it
// is recorded.

import { noStream } from "../../../change/checkpoint.ts";
import type { TableShape } from "../../../change/relation.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { LineBatch, ToDelivery } from "../line/line-messages.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import type { StreamWindows } from "../stream/stream-windows.ts";
import type { CopyGate } from "./copy-gate.ts";
import type { CopyOrigin } from "./copy-rows.ts";
import type { DividedCopies } from "./divided-copies.ts";
import type { KeylessCopies } from "./keyless-copies.ts";
import { TableCopy, type TableCopyOptions } from "./table-copy.ts";
import { UndeliveredRows } from "./undelivered-rows.ts";

export interface TableCopiesOptions extends Omit<TableCopyOptions, "progress"> {
  readonly progress: (copy: number, rows: number, bytes: number) => void;
}

/** What a session delivers beside the copies, and where it notes what is copied. */
export interface Delivering {
  readonly keeper: RecordKeeper;
  readonly stream: StreamWindows;
  readonly divided: DividedCopies;
  readonly keyless: KeylessCopies;
  readonly gate: CopyGate;
}

type CopyBegin = Extract<ToDelivery, { type: "copy.begin" }>;

export class TableCopies {
  readonly #copies = new Map<number, TableCopy>();
  /** By table. */
  readonly #rooms = new Map<string, UndeliveredRows>();

  constructor(private readonly options: TableCopiesOptions) {}

  async begin(message: CopyBegin, table: CompiledTable, delivering: Delivering): Promise<void> {
    const { copy, lsn, part } = message;
    const origin = await originOf(message, table.name, delivering);
    // A range that is copied again, as nobody has written to it, comes in the same requests.
    if (part?.kind === "range" && delivering.divided.takesUp(table.name, part.range)) {
      await delivering.keeper.save();
    }
    const progress = (rows: number, bytes: number) => this.options.progress(copy, rows, bytes);
    const room = this.#rooms.get(table.name) ?? new UndeliveredRows(this.options.maxUndelivered);
    this.#rooms.set(table.name, room);
    const options = { ...this.options, progress };
    this.#copies.set(copy, new TableCopy({ table, part, lsn }, origin, room, options));
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    for (const room of this.#rooms.values()) room.close();
  }

  async take(number: number, batch: LineBatch): Promise<void> {
    const copy = this.#copies.get(number);
    await copy?.take({ ...batch, relations: [copy.subject.table.relation] });
  }

  cancel(number: number): void {
    const copy = this.#copies.get(number);
    copy?.cancel();
    this.#forget(number, copy);
  }

  /** Resolves when all rows are delivered and that they are is durable, or when it was cancelled. */
  async end(number: number, mark: string, { keeper, divided }: Delivering): Promise<void> {
    const copy = this.#copies.get(number);
    if (!copy) return;
    if (!(await copy.finish())) return;
    this.#forget(number, copy);
    const { table, part, lsn } = copy.subject;
    if (part?.kind === "range") divided.add(table.name, part.range, lsn, copy.taken);
    else if (part) divided.brought(table.name, part.keys);
    else {
      divided.forget(table.name);
      const { copied } = keeper.record;
      keeper.change({ copied: new Map(copied).set(table.name, { identity: mark, lsn }) });
    }
    await keeper.save();
  }

  /** Resolves when it is durable that the table, all ranges of which are delivered, is copied. */
  async join(table: TableShape, { keeper, divided }: Delivering): Promise<void> {
    divided.join(table);
    await keeper.save();
  }

  #forget(number: number, copy: TableCopy | undefined): void {
    this.#copies.delete(number);
    const name = copy?.subject.table.name;
    const isLast = [...this.#copies.values()].every(({ subject }) => subject.table.name !== name);
    if (name !== undefined && isLast) this.#rooms.delete(name);
  }
}

/**
 * What a copy's rows carry. Those of a first copy have the version of the place where the stream began: each change of a row that the
 * stream brings is newer, also where a range, or a copy that is made again, is as of a later point. Any other copy, and one of a
 * table that was copied before, gets a version of its own, above all that were given out and below all that come, which is durable
 * before the first row is sent. So does one at a later point where no stream follows: its rows may be others than those of the copy
 * that was interrupted, and nothing else brings them. All ranges of a copy carry the same.
 */
async function originOf(
  { lsn, timeUs, mode, part }: CopyBegin,
  name: string,
  { keeper, stream, divided }: Delivering,
): Promise<CopyOrigin> {
  const known = part?.kind === "range" ? divided.originOf(name) : null;
  if (known) return known;
  const { origin: first, copied, log } = keeper.record;
  let origin = { version: Number(first.version), timeUs: Number(first.version), lsn: first.lsn };
  const isLater = log?.startsWith(noStream) && timeUs !== first.version;
  if (mode !== "initial" || isLater || copied.has(name)) {
    await stream.flush();
    origin = { version: stream.versionBeside(timeUs), timeUs: Number(timeUs), lsn };
    await keeper.save();
  }
  if (part?.kind === "range") divided.begins(name, origin);
  return origin;
}
