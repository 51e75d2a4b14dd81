// Changes of tables that get their first copy beside the stream, or one that takes the place of all their rows. They cannot be applied yet,
// and the stream does not wait: they are kept in the target database, in the transaction that would have applied them, until the copy is
// there. Then they are applied in their order.

import type { Client } from "pg";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import { isStillCopyOf } from "../../../change/copy-mark.ts";
import { dividedMark } from "../../../change/divided-mark.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { decodeHeld, encodeHeld } from "./held-batch.ts";
import { besideSpoiled } from "./touched-keys.ts";

/** Of a copy that is not to count. */
const spoiledMark = "";

/** Of one row: a batch takes several. */
const bodyBytes = 4 * 1024 * 1024;

export interface HeldBatch {
  readonly batch: ChangeBatch;
  /** Of its last row. */
  readonly place: string;
}

interface BodyRow {
  readonly place: string;
  readonly is_last: boolean;
  readonly body: Buffer;
}

export class HeldChanges {
  /** What is kept is of the table with this `dividedMark`, by OID at the source. */
  readonly #tables = new Map<number, string>();
  /** Their copies are being made: the tables as they were when that began, by OID. */
  readonly #copied = new Map<number, TableShape>();
  /** Of these, those that are not to count. */
  readonly #spoiled = new Set<number>();
  /** Shapes of what was kept, by what they are: those of several batches are one. */
  readonly #relations = new Map<string, Relation>();
  /** What was kept of it is being applied. */
  #applied: number | null = null;

  constructor(
    private readonly connectorId: string,
    /** For about how long the stream waits for a piece of what is kept. */
    readonly pieceMs: number,
  ) {}

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<{ id: number; mark: string }>(
      "select table_id::float8 as id, mark from millrace.held_table where connector_id = $1",
      [this.connectorId],
    );
    this.forget();
    for (const { id, mark } of rows) this.#tables.set(id, mark);
  }

  forget(): void {
    this.#tables.clear();
    this.#copied.clear();
    this.#spoiled.clear();
  }

  get tableIds(): readonly number[] {
    return [...this.#tables.keys()];
  }

  /** Changes of the table are kept, and not applied. */
  has(tableId: number): boolean {
    return this.#tables.has(tableId) && this.#applied !== tableId;
  }

  /** Its copy is on its way, or what is kept is to be applied behind it: others need not see to it. */
  isBeingCopied({ id }: Pick<Relation, "id">): boolean {
    return this.#copied.has(id);
  }

  /** The copy of another table is on its way to the rows under the relation's name: it replaces them, whenever that is. */
  isNameTaken(relation: Pick<Relation, "id" | "schema" | "name">): boolean {
    if (this.#copied.size === 0) return false;
    const name = qualifiedName(relation);
    const others = this.#copied.values().filter(({ relation: { id } }) => id !== relation.id);
    return others.some((other) => qualifiedName(other.relation) === name);
  }

  /** What is kept of the table counts still for a copy of it that begins now. */
  isKeptFor(table: TableShape): boolean {
    return this.#tables.get(table.relation.id) === dividedMark(table);
  }

  /** In a transaction of its own: from here on changes of the table are kept; those that are kept already stay where they count. */
  async begin(client: Client, table: TableShape): Promise<void> {
    const { id } = table.relation;
    if (!this.isKeptFor(table)) {
      await this.end(client, id);
      const sql = "insert into millrace.held_table (connector_id, table_id, mark) values ($1, $2, $3)";
      await client.query(sql, [this.connectorId, id, dividedMark(table)]);
      this.#tables.set(id, dividedMark(table));
    }
    this.#copied.set(id, table);
  }

  /**
   * Copies on their way whose tables are not selected any more, are others by now or have missed changes are not to count: those that are not
   * committed will not be, see `requireCounted`. Returns the tables of the others. Durable on return. In no transaction.
   */
  async spoil(client: Client, tables: readonly TableShape[]): Promise<readonly Relation[]> {
    if (this.#copied.size === 0) return [];
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    const isSpoiled = (begun: TableShape) => !isStillCopyOf(begun, byId.get(begun.relation.id));
    const spoiled = [...this.#copied.values()].filter(isSpoiled).map(({ relation }) => relation);
    for (const { id } of spoiled) {
      this.#spoiled.add(id);
      if (!this.#tables.has(id)) continue;
      const sql = "update millrace.held_table set mark = $3 where connector_id = $1 and table_id = $2";
      await client.query(sql, [this.connectorId, id, spoiledMark]);
      this.#tables.set(id, spoiledMark);
    }
    return spoiled;
  }

  /** What the copy that is on its way counts by; null: none is. */
  countedBy({ id }: Pick<Relation, "id">): string | null {
    return this.#copied.has(id) ? (this.#tables.get(id) ?? null) : null;
  }

  /** Throws when the copy on its way, which is made, is not to count. */
  requireSound(relation: Relation): void {
    if (this.#spoiled.has(relation.id)) throw notToCount(relation);
  }

  /** Its copy is not on its way any more. Where it was given up, what is kept counts for the next one, if that comes before anything else. */
  letGo(tableId: number): void {
    this.#copied.delete(tableId);
    this.#spoiled.delete(tableId);
  }

  /** The table's copy is on its way, and its changes are applied meanwhile. */
  beginApplied(table: TableShape): void {
    this.#copied.set(table.relation.id, table);
  }

  /** What is kept is of no use to the copy on its way, which is as of later: from here on changes of the table are applied. In no transaction. */
  async release(client: Client, { id }: Pick<Relation, "id">): Promise<void> {
    const copied = this.#copied.get(id);
    await this.end(client, id);
    if (copied) this.#copied.set(id, copied);
  }

  /** Nothing is kept of the table any more. In no transaction, or as one with what is open. */
  async end(client: Client, tableId: number): Promise<void> {
    for (const table of ["held_table", "held_change"]) {
      const sql = `delete from millrace.${table} where connector_id = $1 and table_id = $2`;
      await client.query(sql, [this.connectorId, tableId]);
    }
    this.#tables.delete(tableId);
    this.letGo(tableId);
    if (this.#tables.size === 0) this.#relations.clear();
  }

  /**
   * What is kept of tables that are not to be copied, are others by now, or wait for their copy for nobody knows how long
   * (`isLeftOut`), is of no use. In no transaction.
   */
  async sweep(
    client: Client,
    tables: readonly TableShape[],
    isCopied: (relation: Relation) => boolean,
    isLeftOut: (relation: Relation) => boolean,
  ): Promise<void> {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    for (const id of this.tableIds) {
      const table = byId.get(id);
      const isKept =
        table && (isCopied(table.relation) || (this.isKeptFor(table) && !isLeftOut(table.relation)));
      if (!this.#copied.has(id) && !isKept) await this.end(client, id);
    }
  }

  /** In the transaction that the other changes of the batch are applied in. */
  async keep(client: Client, batch: ChangeBatch, indexes: readonly number[]): Promise<void> {
    const byTable = new Map<number, number[]>();
    for (const i of indexes) {
      const { id } = batch.relations[batch.relation[i]!]!;
      const some = byTable.get(id);
      if (some) some.push(i);
      else byTable.set(id, [i]);
    }
    for (const [id, some] of byTable) await this.#insert(client, id, encodeHeld(batch, some));
  }

  /** What is to be applied next of the table's changes; null: nothing is kept. */
  async next(client: Client, tableId: number): Promise<HeldBatch | null> {
    const bodies: Buffer[] = [];
    let place = "-1";
    while (true) {
      const { rows } = await client.query<BodyRow>(
        "select h.place::text, h.is_last, h.body from millrace.held_change h " +
          "where h.connector_id = $1 and h.table_id = $2 and h.place > $3 order by h.place limit 1",
        [this.connectorId, tableId, place],
      );
      const [row] = rows;
      if (!row) return null;
      bodies.push(row.body);
      place = row.place;
      if (!row.is_last) continue;
      const batch = decodeHeld(Buffer.concat(bodies));
      return { batch: { ...batch, relations: batch.relations.map((each) => this.#known(each)) }, place };
    }
  }

  /** `action` applies what `next` has given: its changes are not kept once more. */
  async applying<T>(tableId: number, action: () => Promise<T>): Promise<T> {
    this.#applied = tableId;
    try {
      return await action();
    } finally {
      this.#applied = null;
    }
  }

  /** With the transaction that has applied them. */
  async applied(client: Client, tableId: number, place: string): Promise<void> {
    await client.query(
      "delete from millrace.held_change where connector_id = $1 and table_id = $2 and place <= $3",
      [this.connectorId, tableId, place],
    );
  }

  #known(relation: Relation): Relation {
    const shape = JSON.stringify(relation);
    const known = this.#relations.get(shape) ?? relation;
    this.#relations.set(shape, known);
    return known;
  }

  async #insert(client: Client, tableId: number, bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += bodyBytes) {
      await client.query({
        name: "millrace_hold",
        text: "insert into millrace.held_change (connector_id, table_id, is_last, body) values ($1, $2, $3, $4)",
        values: [
          ...[this.connectorId, tableId],
          ...[at + bodyBytes >= bytes.length, bytes.subarray(at, at + bodyBytes)],
        ],
      });
    }
  }
}

/** With the transaction of a copy that counts by `mark`. */
export async function requireCounted(
  client: Client,
  connectorId: string,
  relation: Relation,
  mark: string,
): Promise<void> {
  const { rowCount } = await client.query(
    "select from millrace.held_table where connector_id = $1 and table_id = $2 and mark = $3 for share",
    [connectorId, relation.id, mark],
  );
  if (rowCount !== 1 || mark === spoiledMark) throw notToCount(relation);
}

function notToCount(relation: Relation): Error {
  return besideSpoiled(relation, "was left out, or was not what it had been,");
}
