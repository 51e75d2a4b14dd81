// A source whose tables lie in memory, for tests of how tables are copied: points, sizes and rows. It streams nothing.

import type { TupleForm } from "../../../src/change/change-batch.ts";
import type { CopyPart } from "../../../src/change/copy-part.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import type { TableSize } from "../../../src/change/page-range.ts";
import { qualifiedName, type TableShape } from "../../../src/change/relation.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { Source } from "../../../src/source/source.ts";
import type { SnapshotPoint, TableRows } from "../../../src/source/table-source.ts";
import { relation, tableShape } from "../rows/batch-fixture.ts";

/** Rows of `id` and `v`, a row to a page. */
type Rows = readonly (readonly [id: number, v: string])[];

const bytesOfPage = 8192;

export class MemorySource
  implements
    Pick<
      Source,
      | "database"
      | "tables"
      | "excluded"
      | "absent"
      | "snapshotPoint"
      | "readDenial"
      | "measure"
      | "readTable"
      | "copied"
    >
{
  readonly database = "db";
  readonly #tables = new Map<string, { readonly shape: TableShape; rows: Rows }>();
  readonly #snapshots = new Map<Lsn, ReadonlyMap<string, Rows>>();
  #log = 0x100n;
  /** Why a table cannot be read, by its name. */
  readonly failures = new Map<string, MillraceError>();
  /** Why no point can be had; null: one can. */
  noPoint: MillraceError | null = null;
  /** What was read, in its order. */
  readonly reads: { readonly table: string; readonly part: CopyPart | null; readonly lsn: Lsn }[] = [];
  /** Tables that the sink was told to hold. */
  readonly held: string[] = [];
  /** Points that are open. */
  get openPoints(): number {
    return this.#snapshots.size;
  }

  /** `key`: its columns, by their index; none: it has no key. */
  add(name: string, rows: Rows, key: readonly number[] = [0]): TableShape {
    const id = 16_400 + this.#tables.size;
    const columns = [["id", 23, "integer"] as const, ["v", 25, "text"] as const];
    const shape = { ...tableShape(relation(name, columns, { id, key })), estimatedRows: rows.length };
    this.#tables.set(name, { shape, rows });
    return shape;
  }

  /** From the next point on. */
  set(name: string, rows: Rows): void {
    this.#of(name).rows = rows;
  }

  async tables(): Promise<readonly TableShape[]> {
    return [...this.#tables.values()].map(({ shape }) => shape);
  }

  excluded(): readonly [] {
    return [];
  }

  absent(): null {
    return null;
  }

  async snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint> {
    stop.throwIfAborted();
    if (this.noPoint) throw this.noPoint;
    const at = lsn(++this.#log);
    this.#snapshots.set(at, new Map([...this.#tables].map(([name, { rows }]) => [name, rows])));
    const dispose = async () => void this.#snapshots.delete(at);
    return { lsn: at, timeUs: at, log: "log", [Symbol.asyncDispose]: dispose };
  }

  async readDenial({ relation: { name } }: TableShape): Promise<MillraceError | null> {
    return this.failures.get(name) ?? null;
  }

  async measure({ relation: { name } }: TableShape): Promise<TableSize> {
    const pages = this.#of(name).rows.length;
    return { pages, bytes: pages * bytesOfPage };
  }

  readTable(table: TableShape, point: SnapshotPoint, _form: TupleForm, part?: CopyPart): TableRows {
    const { name } = table.relation;
    this.reads.push({ table: name, part: part ?? null, lsn: point.lsn });
    const all = this.#snapshots.get(point.lsn)?.get(name);
    if (!all) throw new Error(`${qualifiedName(table.relation)} is read as of a point that is gone`);
    const rows = all.filter(([id], page) => {
      if (part?.kind === "rows") return part.keys.some(([key]) => key === String(id));
      if (part?.kind !== "range") return true;
      return page >= part.range.from && (part.range.to === null || page < part.range.to);
    });
    const failure = this.failures.get(name);
    async function* chunks(): AsyncGenerator<Uint8Array> {
      if (failure) throw failure;
      for (const [id, v] of rows) yield Buffer.from(`${id}\t${v}\n`);
    }
    return { chunks: chunks(), rowsRead: () => rows.length };
  }

  copied({ relation: { name } }: TableShape): void {
    this.held.push(name);
  }

  #of(name: string): { readonly shape: TableShape; rows: Rows } {
    const table = this.#tables.get(name);
    if (!table) throw new Error(`there is no table ${name}`);
    return table;
  }
}
