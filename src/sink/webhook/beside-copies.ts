// Copies that are made beside the stream, which goes on for their tables too: the rows of a range go out once the stream has passed its
// point, with a version that all changes from before are below and all that come are above, and without the rows that the stream
// has brought since. Nothing of them is recorded but the versions: one that dies begins anew.

import type { RowKey } from "../../change/copy-part.ts";
import type { Lsn } from "../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../change/relation.ts";
import { BesideRange } from "./beside-range.ts";
import type { ChangedRow, ChangeWatch, OperationFilter } from "./change-rows.ts";
import type { CompiledTable } from "./compiled-table.ts";
import type { CopyOrigin } from "./copy-rows.ts";
import type { LineBatch, ToDelivery } from "./line-messages.ts";
import type { RecordKeeper } from "./record-keeper.ts";
import { holdsCopy } from "./sink-record.ts";
import type { StreamWindows } from "./stream-windows.ts";
import type { TableCopiesOptions } from "./table-copies.ts";
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
  readonly touched: TouchedKeys;
  readonly room: UndeliveredRows;
  /** What the rows as of each point carry, once that is durable and what was committed before is on its way. */
  readonly origins: Map<Lsn, { readonly origin: CopyOrigin; readonly isReady: Promise<unknown> }>;
  readonly ranges: Map<number, BesideRange>;
  /** Null: all ranges are not taken yet. */
  owed: readonly RowKey[] | null;
  /** Why it has to begin anew; null: it has not. */
  spoiledBy: string | null;
}

type CopyBegin = Extract<ToDelivery, { type: "copy.begin" }>;

export class BesideCopies implements ChangeWatch {
  readonly #copies = new Map<number, BesideCopy>();
  /** Tables whose changes were too many: the next copy stands between two batches. */
  readonly #lost = new Set<string>();

  constructor(
    private readonly options: TableCopiesOptions,
    private readonly filter: OperationFilter,
    private readonly remember: () => TouchedKeys = () => new TouchedKeys(),
  ) {}

  /** Between two batches: what the stream brings of the table from here on is kept in mind. False: it cannot be copied so. */
  begin(number: number, table: CompiledTable, keeper: RecordKeeper): boolean {
    const sendsAll = this.filter.sends("read") && this.filter.sends("update");
    const isKeyed = table.order === "byKey" && table.relation.isKeyedByHash !== true;
    if (!sendsAll || !isKeyed || !holdsCopy(keeper.record.copied, table.name)) return false;
    if (this.#lost.delete(table.name)) return false;
    this.#copies.set(number, {
      ...{ table, touched: this.remember(), room: new UndeliveredRows(this.options.maxUndelivered) },
      ...{ origins: new Map(), ranges: new Map(), owed: null, spoiledBy: null },
    });
    return true;
  }

  /** It is over, or given up: rows that are on their way arrive. */
  end(number: number): void {
    const copy = this.#copies.get(number);
    if (!copy) return;
    for (const range of copy.ranges.values()) range.cancel();
    if (copy.touched.isLost) this.#lost.add(copy.table.name);
    this.#copies.delete(number);
  }

  /** Whether the copy of this number is a range of one of these. */
  has(range: number): boolean {
    return this.#ofRange(range) !== undefined;
  }

  /** The stream has passed the range's point. Resolves when its rows may come; see `spoiledBy`. */
  async open(message: CopyBegin, keeper: RecordKeeper, stream: StreamWindows): Promise<void> {
    const { copy: number, beside, lsn, timeUs } = message;
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
    copy.ranges.set(number, new BesideRange(copy.table, lsn, origin, copy.touched, copy.room, options));
    this.#forget(copy);
    await isReady;
  }

  async take(number: number, batch: LineBatch): Promise<void> {
    const copy = this.#ofRange(number);
    await copy?.ranges.get(number)?.take({ ...batch, relations: [copy.table.relation] });
  }

  /** Resolves when all rows of the range that are to go out are delivered. */
  async finish(number: number): Promise<void> {
    const copy = this.#ofRange(number);
    await copy?.ranges.get(number)?.finish();
    copy?.ranges.delete(number);
    if (copy) this.#forget(copy);
  }

  cancel(number: number): void {
    const copy = this.#ofRange(number);
    copy?.ranges.get(number)?.cancel();
    copy?.ranges.delete(number);
  }

  /** Keys of rows to be copied by themselves, in pieces: all ranges have been delivered. */
  settle(number: number): SettledKeys {
    const copy = this.#copies.get(number);
    if (!copy) return { keys: [], isMore: false };
    const points = sorted(copy.origins.keys());
    const [first, last] = [points[0], points.at(-1)];
    copy.owed ??= first === undefined || last === undefined ? [] : copy.touched.takeOwed(first, last);
    const keys = copy.owed.slice(0, maxKeys);
    copy.owed = copy.owed.slice(maxKeys);
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
    const [oldest = newest] = sorted([...ranges.values()].map(({ point }) => point));
    if (oldest !== undefined) touched.forgetBefore(oldest);
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
