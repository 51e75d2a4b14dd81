// Copies of whole tables, each as of one point, that are made beside the stream: of tables of which nothing tells what the stream has brought
// since, or which it brings without their updates. What the stream brings of the table from the point on waits behind the copy, see
// copy-gate.ts, so that they come as if the stream had stood still; the others' go on.

import { copyMark } from "../../../change/copy-mark.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { LineBatch, ToDelivery } from "../line/line-messages.ts";
import { holdsCopy } from "../record/sink-record.ts";
import type { SettledKeys } from "./beside-copies.ts";
import type { CopyOrigin } from "./copy-rows.ts";
import type { Delivering, TableCopiesOptions } from "./table-copies.ts";
import { TableCopy } from "./table-copy.ts";
import { UndeliveredRows } from "./undelivered-rows.ts";

interface WholeCopy {
  readonly table: CompiledTable;
  readonly shape: TableShape;
  /** The table has not been copied before. */
  readonly isFirst: boolean;
  readonly room: UndeliveredRows;
  /** Null: the stream has not come to its point. */
  origin: CopyOrigin | null;
  /** Its rows on their way. */
  rows: { readonly range: number; readonly copy: TableCopy } | null;
  isMade: boolean;
  /** Why it has to begin anew; null: it has not. */
  spoiledBy: string | null;
}

type CopyBegin = Extract<ToDelivery, { type: "copy.begin" }>;
type BesideBegin = Extract<ToDelivery, { type: "beside.begin" }>;
type BesidePoint = Extract<ToDelivery, { type: "beside.point" }>;

export class WholeCopies {
  readonly #copies = new Map<number, WholeCopy>();

  constructor(private readonly options: TableCopiesOptions) {}

  /** Between two batches. False: it cannot be copied so. */
  begin(
    { beside: number, table: shape, isFirst }: BesideBegin,
    table: CompiledTable,
    { keeper, gate }: Delivering,
  ): boolean {
    if (!isFirst && !holdsCopy(keeper.record.copied, table.name)) return false;
    const room = new UndeliveredRows(this.options.maxUndelivered);
    const nothingYet = { origin: null, rows: null, isMade: false, spoiledBy: null };
    this.#copies.set(number, { table, shape, isFirst, room, ...nothingYet });
    gate.watch(number, table.name);
    return true;
  }

  /** Between two batches: the copy is as of this point. False: the stream has brought changes of its table from behind it. */
  goBefore(
    { beside: number, lsn, timeUs }: BesidePoint,
    { keeper, stream, gate, keyless }: Delivering,
  ): boolean {
    const copy = this.#copies.get(number);
    if (!copy) return false;
    const { origin: first, copied } = keeper.record;
    const isOutranked = copy.isFirst && !copied.has(copy.table.name);
    const reached = () => {
      copy.origin = isOutranked
        ? { version: Number(first.version), timeUs: Number(first.version), lsn: first.lsn }
        : { version: stream.versionBeside(timeUs), timeUs: Number(timeUs), lsn };
    };
    if (!gate.close(number, lsn, reached)) return false;
    if (copy.isFirst) keyless.isAsOf(copy.table.name, lsn);
    stream.reachGate();
    return true;
  }

  has(number: number | null): boolean {
    return number !== null && this.#copies.has(number);
  }

  /** Whether the rows of this number are of one of these. */
  hasRows(range: number): boolean {
    return this.#ofRows(range) !== undefined;
  }

  /** The stream has passed the point. Resolves when its rows may come. */
  async open({ copy: range, beside, lsn }: CopyBegin, { keeper }: Delivering): Promise<void> {
    const copy = beside === null ? undefined : this.#copies.get(beside);
    if (!copy) return;
    if (!copy.origin) throw new MillraceError("internal", "the stream has not come to the point of a copy");
    if (copy.spoiledBy !== null) return;
    const progress = (rows: number, bytes: number) => this.options.progress(range, rows, bytes);
    const subject = { table: copy.table, part: null, lsn };
    const options = { ...this.options, progress, isBeside: true };
    copy.rows = { range, copy: new TableCopy(subject, copy.origin, copy.room, options) };
    await keeper.save();
  }

  async take(range: number, batch: LineBatch): Promise<void> {
    const copy = this.#ofRows(range);
    await copy?.rows?.copy.take({ ...batch, relations: [copy.table.relation] });
  }

  /** Resolves when all rows are delivered, and, of a first copy, that they are is durable; what has waited goes then. */
  async finish(range: number, delivering: Delivering): Promise<void> {
    const copy = this.#ofRows(range);
    if (!copy?.rows) return;
    const { subject } = copy.rows.copy;
    if (!(await copy.rows.copy.finish())) return;
    const number = this.#numberOf(copy);
    if (number === null || !copy.rows || copy.spoiledBy !== null) return;
    await this.#made(copy, subject.lsn, delivering);
    delivering.gate.open(number);
  }

  cancel(range: number): void {
    const copy = this.#ofRows(range);
    copy?.rows?.copy.cancel();
    if (copy) copy.rows = null;
  }

  /** Nothing of it is left to be copied by itself. */
  settle(): SettledKeys {
    return { keys: [], isMore: false };
  }

  spoil(number: number): void {
    const copy = this.#copies.get(number);
    if (copy) copy.spoiledBy ??= "is not what it was";
  }

  spoiledBy(number: number | null): string | null {
    const copy = number === null ? undefined : this.#copies.get(number);
    if (!copy?.spoiledBy) return null;
    const name = qualifiedName(copy.table.relation);
    return `Table ${name} ${copy.spoiledBy} when its copy began: the copy begins again.`;
  }

  /** It is over, or given up: rows that are on their way arrive, and what has waited behind it. */
  end(number: number, { gate }: Delivering): void {
    const copy = this.#copies.get(number);
    if (!copy) return;
    copy.rows?.copy.cancel();
    copy.rows = null;
    this.#copies.delete(number);
    if (copy.isMade) return;
    // The next copy has these rows, and without a key nothing would tell that they are the same.
    if (copy.isFirst && copy.table.relation.key.length === 0) gate.drop(number);
    else gate.open(number);
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    for (const { room } of this.#copies.values()) room.close();
  }

  async #made(copy: WholeCopy, lsn: Lsn, { keeper, divided }: Delivering): Promise<void> {
    const { table, shape, isFirst } = copy;
    copy.isMade = true;
    divided.forget(table.name);
    const { copied } = keeper.record;
    if (isFirst)
      keeper.change({ copied: new Map(copied).set(table.name, { identity: copyMark(shape), lsn }) });
    await keeper.save();
  }

  #ofRows(range: number): WholeCopy | undefined {
    return this.#copies.values().find(({ rows }) => rows?.range === range);
  }

  #numberOf(copy: WholeCopy): number | null {
    return this.#copies.entries().find(([, each]) => each === copy)?.[0] ?? null;
  }
}
