// Puts a table's shape into the stream at the right position when no change of the table does. While a lock prevents
// the table from being altered, its shape is read and a logical message, the shape marker, is logged. Every change
// before the marker was made under that shape or an earlier one, every change after it under that shape or a later one.
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION

import type { Client } from "pg";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** Prefix of the logical messages; the content is the marker's id. */
export const shapeMarkerPrefix = "millrace fence";

/** Tables that are locked in one transaction. */
const groupSize = 50;
const lockTimeoutMs = 1_000;
/** For all markers of one call: the stream waits meanwhile. */
const patienceMs = 3_000;

/** What became of a marker: it is logged; a table is locked or gone, or may not be locked; or the server accepts no message. */
type Outcome = "logged" | "table busy" | "table denied" | "not writable";

const outcomes: Readonly<Record<string, Outcome>> = {
  [sqlState.lockNotAvailable]: "table busy",
  [sqlState.undefinedTable]: "table busy",
  // The role lacks the privilege, or the server is a standby.
  [sqlState.insufficientPrivilege]: "not writable",
  [sqlState.readOnlyTransaction]: "not writable",
  [sqlState.objectNotInPrerequisiteState]: "not writable",
};

export class ShapeMarkers {
  readonly #shapes = new Map<string, readonly Relation[]>();

  constructor(
    private readonly readShapes: (client: Client, ids: readonly number[]) => Promise<readonly TableShape[]>,
  ) {}

  /**
   * Logs a marker for each group of `tables`. Returns the tables that could not be locked in time. Tables that may not be
   * locked get none, and where the server accepts no message it returns none: without a marker, a shape is known with the
   * table's next row.
   */
  async write(client: Client, tables: readonly TableShape[]): Promise<readonly TableShape[]> {
    const left: TableShape[] = [];
    const endsAt = performance.now() + patienceMs;
    const write = async (group: readonly TableShape[]): Promise<Outcome> =>
      performance.now() < endsAt ? await this.#write(client, group) : "table busy";
    for (let at = 0; at < tables.length; at += groupSize) {
      const group = tables.slice(at, at + groupSize);
      const outcome = await write(group);
      if (outcome === "not writable") return [];
      if (outcome === "logged") continue;
      // One table that is locked, or may not be, must not hold up the others of its group.
      for (const table of group) if ((await write([table])) === "table busy") left.push(table);
    }
    return left;
  }

  /** The shapes that hold from a marker on; empty for a marker of another run. */
  take(id: string): readonly Relation[] {
    const shapes = this.#shapes.get(id) ?? [];
    this.#shapes.delete(id);
    return shapes;
  }

  async #write(client: Client, tables: readonly TableShape[]): Promise<Outcome> {
    const id = crypto.randomUUID();
    const names = new Map(tables.map(({ relation }) => [relation.id, qualifiedName(relation)]));
    let isLocked = false;
    try {
      await client.query(`begin; set local lock_timeout = ${lockTimeoutMs}`);
      await client.query(
        `lock table ${tables.map(({ relation }) => sqlName(relation)).join(", ")} in access share mode`,
      );
      isLocked = true;
      const shapes = await this.readShapes(
        client,
        tables.map(({ relation }) => relation.id),
      );
      // Somebody swapped names: the locked table is not the one that was read.
      if (!shapes.every(({ relation }) => names.get(relation.id) === qualifiedName(relation))) {
        await client.query("rollback");
        return "table busy";
      }
      // Before the stream can bring the marker.
      this.#shapes.set(
        id,
        shapes.map(({ relation }) => relation),
      );
      await client.query("select pg_logical_emit_message(false, $1, $2)", [shapeMarkerPrefix, id]);
      await client.query("commit");
      return "logged";
    } catch (error) {
      this.#shapes.delete(id);
      const state = sqlStateOf(error) ?? "";
      const isDenied = state === sqlState.insufficientPrivilege && !isLocked;
      const outcome = isDenied ? "table denied" : outcomes[state];
      if (outcome === undefined) throw error;
      await client.query("rollback");
      return outcome;
    }
  }
}
