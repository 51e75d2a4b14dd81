// Copies that are made beside the stream, which goes on for their tables too: the rows of a range go out once the stream has passed its
// point, with a version that all changes from before are below and all that come are above, and without the rows that the stream
// has brought since. The ranges that are delivered are recorded, and what the stream brings in part: the next run goes on with the
// others.

import type { CopyPart, RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { isIdentified, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { DeliveryState, LineBatch, ToDelivery } from "../line/line-messages.ts";
import { OwedKeys } from "../record/owed-keys.ts";
import { holdsCopy, withMissed } from "../record/sink-record.ts";
import type { ChangedRow, ChangeWatch, OperationFilter } from "../stream/change-rows.ts";
import { BesideRange } from "./beside-range.ts";
import type { CopyOrigin } from "./copy-rows.ts";
import type { Delivering, TableCopiesOptions } from "./table-copies.ts";
import { TouchedKeys } from "./touched-keys.ts";
import { UndeliveredRows } from "./undelivered-rows.ts";

/** Of rows that are owed, so many are asked for at once. */
const maxKeys = 10_000;

export interface SettledKeys {
  readonly keys: readonly RowKey[];
  readonly isMore: boolean;
}

interface BesideCopy {
  readonly table: CompiledTable;
  readonly shape: TableShape;
  /** The table has not been copied before. */
  readonly isFirst: boolean;
  /** Ranges were delivered before it began. */
  readonly goesOn: boolean;
  /** What is delivered of it, and owed, is recorded. */
  isRecorded: boolean;
  readonly touched: TouchedKeys;
  readonly room: UndeliveredRows;
  /** What the rows as of each point carry, once that is durable and what was committed before is on its way. */
  readonly origins: Map<Lsn, { readonly origin: CopyOrigin; readonly isReady: Promise<unknown> }>;
  readonly ranges: Map<number, { readonly rows: BesideRange; readonly part: CopyPart | null }>;
  /** Null: all ranges are not taken yet. */
  owed: readonly RowKey[] | null;
  /** Why it has to begin anew; null: it has not. */
  spoiledBy: string | null;
}

type CopyBegin = Extract<ToDelivery, { type: "copy.begin" }>;
type BesideBegin = Extract<ToDelivery, { type: "beside.begin" }>;

export class BesideCopies implements ChangeWatch {
  readonly #copies = new Map<number, BesideCopy>();
  /** Tables whose changes were too many: the next copy is made whole. */
  readonly #lost = new Set<string>();

  constructor(
    private readonly options: TableCopiesOptions,
    private readonly filter: OperationFilter,
    private readonly remember: () => TouchedKeys = () => new TouchedKeys(),
  ) {}

  /**
   * Between two batches: changes of the table, which has no copy, come before its first one. That is durable on return: any copy of it
   * gets a version of its own. But those of a table without a key do not, and the copy brings what is in them. Returns whether it is
   * to be made whole.
   */
  async expect(shape: TableShape, table: CompiledTable, { keeper, keyless }: Delivering): Promise<boolean> {
    const { copied } = keeper.record;
    const isKeyless = table.relation.key.length === 0;
    if (isKeyless) keyless.expect(table.name);
    const missed = isKeyless ? copied : withMissed(copied, [shape]);
    if (missed !== copied) {
      keeper.change({ copied: missed });
      await keeper.save();
    }
    return this.takesWhole(table, true);
  }

  /** Whether the table's copy is not one of these, but is to be made whole, as of one point. */
  takesWhole(table: CompiledTable, isFirst: boolean): boolean {
    const { order, name, relation } = table;
    const sendsAll = this.filter.sends("read") && this.filter.sends("update");
    const isTold = order === "byKey" && isIdentified(relation);
    return !sendsAll || !isTold || (!isFirst && this.#lost.delete(name));
  }

  /** Between two batches: what the stream brings of the table from here on is kept in mind. Or it cannot be copied so. */
  begin(
    { beside: number, table: shape, isFirst }: BesideBegin,
    table: CompiledTable,
    { keeper, divided }: Delivering,
  ): Pick<DeliveryState, "isBeside" | "begun"> {
    if (!isFirst && !holdsCopy(keeper.record.copied, table.name)) return { isBeside: false };
    const begun = isFirst ? divided.beginBeside(shape) : divided.beginAgain(shape);
    const goesOn = begun !== null && begun.ranges.length > 0;
    this.#copies.set(number, {
      ...{ table, shape, isFirst, goesOn, isRecorded: begun !== null },
      ...{ touched: this.remember(), room: new UndeliveredRows(this.options.maxUndelivered) },
      ...{ origins: new Map(), ranges: new Map(), owed: null, spoiledBy: null },
    });
    return { isBeside: true, begun };
  }

  /** It is over, or given up: rows that are on their way arrive. */
  end(number: number, { divided }: Delivering): void {
    const copy = this.#copies.get(number);
    if (!copy) return;
    for (const { rows } of copy.ranges.values()) rows.cancel();
    if (copy.touched.isLost && !copy.isFirst) this.#lost.add(copy.table.name);
    this.#copies.delete(number);
    if (!copy.isFirst) divided.letGo(copy.table.name);
  }

  /** Whether the copy of this number is a range of one of these. */
  hasRows(range: number): boolean {
    return this.#ofRange(range) !== undefined;
  }

  /** The stream has passed the range's point. Resolves when its rows may come; see `spoiledBy`. */
  async open(message: CopyBegin, { keeper, stream }: Delivering): Promise<void> {
    const { copy: number, beside, lsn, timeUs, part } = message;
    const copy = beside === null ? undefined : this.#copies.get(beside);
    if (!copy) return;
    const known = copy.origins.get(lsn);
    if (!known) {
      copy.touched.beginPoint();
      const origin = { version: stream.versionBeside(timeUs), timeUs: Number(timeUs), lsn };
      copy.origins.set(lsn, { origin, isReady: Promise.all([keeper.save(), stream.submitted()]) });
    }
    if (!copy.touched.remembers(lsn)) copy.spoiledBy ??= "was read as of a point that is past";
    const { origin, isReady } = copy.origins.get(lsn)!;
    const progress = (rows: number, bytes: number) => this.options.progress(number, rows, bytes);
    const options = { ...this.options, progress };
    const rows = new BesideRange(copy.table, lsn, origin, copy.touched, copy.room, options);
    copy.ranges.set(number, { rows, part });
    this.#forget(copy);
    await isReady;
  }

  async take(number: number, batch: LineBatch): Promise<void> {
    const copy = this.#ofRange(number);
    await copy?.ranges.get(number)?.rows.take({ ...batch, relations: [copy.table.relation] });
  }

  /** Resolves when all rows of the range that are to go out are delivered, and that they are is durable where it is recorded. */
  async finish(number: number, { keeper, divided }: Delivering): Promise<void> {
    const copy = this.#ofRange(number);
    const range = copy?.ranges.get(number);
    if (!copy || !range) return;
    const { rows, part } = range;
    await rows.finish();
    copy.ranges.delete(number);
    this.#forget(copy);
    if (!rows.isWhole || part?.kind !== "range") return;
    this.#requireOwedNoted(copy, divided);
    if (!copy.isRecorded || copy.spoiledBy !== null || copy.touched.isLost) return;
    divided.add(copy.table.name, part.range, rows.point, rows.delivered);
    await keeper.save();
  }

  cancel(number: number): void {
    const copy = this.#ofRange(number);
    copy?.ranges.get(number)?.rows.cancel();
    copy?.ranges.delete(number);
  }

  /**
   * Keys of rows to be copied by themselves, in pieces: all ranges have been delivered. Told none, the copy is made, durably; see
   * `spoiledBy`.
   */
  async settle(number: number, { keeper, divided }: Delivering): Promise<SettledKeys> {
    const copy = this.#copies.get(number);
    if (!copy) return { keys: [], isMore: false };
    this.#requireOwedNoted(copy, divided);
    const points = sorted(copy.origins.keys());
    const [first, last] = [points[0], points.at(-1)];
    copy.owed ??= new OwedKeys([
      ...(first === undefined || last === undefined ? [] : copy.touched.takeOwed(first, last)),
      ...(copy.isRecorded && (copy.isFirst || copy.goesOn) ? divided.owedOf(copy.table.name) : []),
    ]).list();
    const keys = copy.owed.slice(0, maxKeys);
    copy.owed = copy.owed.slice(maxKeys);
    if (keys.length === 0 && copy.spoiledBy === null && (copy.isFirst || copy.isRecorded)) {
      if (copy.isFirst) divided.made(copy.shape, last ?? zeroLsn);
      else divided.forget(copy.table.name);
      await keeper.save();
    }
    return { keys, isMore: copy.owed.length > 0 };
  }

  /** Why the copy has to begin anew; null: it has not. */
  spoiledBy(number: number | null): string | null {
    const copy = number === null ? undefined : this.#copies.get(number);
    if (!copy) return null;
    const name = qualifiedName(copy.table.relation);
    const reason = copy.touched.isLost ? "had more changes than can be kept in mind" : copy.spoiledBy;
    return reason && `Table ${name} ${reason} while it was copied: the copy begins again.`;
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    for (const { room } of this.#copies.values()) room.close();
  }

  watches({ relation: { id } }: CompiledTable): boolean {
    if (this.#copies.size === 0) return false;
    return [...this.#copies.values()].some(({ table }) => table.relation.id === id);
  }

  see(row: ChangedRow): void {
    const { relation } = row.table;
    for (const copy of this.#copies.values()) {
      if (copy.table.relation.id !== relation.id || copy.spoiledBy || copy.touched.isLost) continue;
      if (isSameShape(copy.table.relation, relation)) copy.touched.see(row);
      else copy.spoiledBy = "was altered";
    }
  }

  /** What was touched before every range that is on its way or to come. */
  #forget({ touched, origins, ranges }: BesideCopy): void {
    const newest = sorted(origins.keys()).at(-1);
    const [oldest = newest] = sorted([...ranges.values()].map(({ rows }) => rows.point));
    if (oldest !== undefined) touched.forgetBefore(oldest);
  }

  /** What is recorded of a copy may have become too much, or another's. Where it has all ranges itself, more is kept in memory. */
  #requireOwedNoted(copy: BesideCopy, divided: Delivering["divided"]): void {
    const { isFirst, goesOn, shape } = copy;
    if (!copy.isRecorded || divided.isOpen(shape, isFirst ? "open" : "again")) return;
    if (isFirst || goesOn) copy.spoiledBy ??= "had more changes than can be noted, or was altered";
    else copy.isRecorded = false;
  }

  #ofRange(number: number): BesideCopy | undefined {
    return [...this.#copies.values()].find(({ ranges }) => ranges.has(number));
  }
}

function sorted(points: Iterable<Lsn>): readonly Lsn[] {
  return [...points].sort((a, b) => (a < b ? -1 : 1));
}

/** Rows of one go with rows of the other. */
function isSameShape(one: Relation, other: Relation): boolean {
  if (one === other) return true;
  const facts = ({ schema, name, columns, key }: Relation) =>
    JSON.stringify([
      schema,
      name,
      columns.map(({ name, number, typeName }) => [name, number, typeName]),
      key,
    ]);
  return facts(one) === facts(other);
}
