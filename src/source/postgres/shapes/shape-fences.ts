// Brings a table's shape to its place in the stream when no change of the table does. While a lock keeps the table from being
// altered, its shape is read and a logical message is logged: every change that comes before the message was made under that
// shape or an earlier one, and every change behind it under that shape or a later one.
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION

import type { Client } from "pg";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** Prefix of the messages; the content is the fence's name. */
export const fencePrefix = "millrace fence";

/** Tables that one transaction locks. */
const groupSize = 50;
const lockTimeoutMs = 1_000;
/** For all fences of a look: the stream waits meanwhile. */
const patienceMs = 3_000;

/** What became of a fence: it is logged; a table is locked or gone; or nothing can be logged at all. */
type Outcome = "logged" | "table hindered" | "log closed";

const outcomes: Readonly<Record<string, Outcome>> = {
  [sqlState.lockNotAvailable]: "table hindered",
  [sqlState.undefinedTable]: "table hindered",
  // The role may not; or the server is a standby, which cannot.
  [sqlState.insufficientPrivilege]: "log closed",
  [sqlState.readOnlyTransaction]: "log closed",
  [sqlState.objectNotInPrerequisiteState]: "log closed",
};

export class ShapeFences {
  readonly #shapes = new Map<string, readonly Relation[]>();

  constructor(
    private readonly readShapes: (client: Client, ids: readonly number[]) => Promise<readonly TableShape[]>,
  ) {}

  /**
   * Logs a fence for each group of `tables`. Returns those whose lock could not be had soon. Where nothing can be logged there
   * are none: a shape goes with its table's next row then, as without fences.
   */
  async set(client: Client, tables: readonly TableShape[]): Promise<readonly TableShape[]> {
    const left: TableShape[] = [];
    const endsAt = performance.now() + patienceMs;
    const fence = async (group: readonly TableShape[]): Promise<Outcome> =>
      performance.now() < endsAt ? await this.#fence(client, group) : "table hindered";
    for (let at = 0; at < tables.length; at += groupSize) {
      const group = tables.slice(at, at + groupSize);
      const outcome = await fence(group);
      if (outcome === "log closed") return [];
      if (outcome === "logged") continue;
      // One that is held must not keep the others.
      for (const table of group) if ((await fence([table])) !== "logged") left.push(table);
    }
    return left;
  }

  /** The shapes that hold from a fence on; none of one that another run has set. */
  take(name: string): readonly Relation[] {
    const shapes = this.#shapes.get(name) ?? [];
    this.#shapes.delete(name);
    return shapes;
  }

  async #fence(client: Client, tables: readonly TableShape[]): Promise<Outcome> {
    const name = crypto.randomUUID();
    const names = new Map(tables.map(({ relation }) => [relation.id, qualifiedName(relation)]));
    try {
      await client.query(`begin; set local lock_timeout = ${lockTimeoutMs}`);
      await client.query(
        `lock table ${tables.map(({ relation }) => sqlName(relation)).join(", ")} in access share mode`,
      );
      const shapes = await this.readShapes(
        client,
        tables.map(({ relation }) => relation.id),
      );
      // Somebody has exchanged names: another table is locked than the one that was read.
      if (!shapes.every(({ relation }) => names.get(relation.id) === qualifiedName(relation))) {
        await client.query("rollback");
        return "table hindered";
      }
      // Before the message can come back.
      this.#shapes.set(
        name,
        shapes.map(({ relation }) => relation),
      );
      await client.query("select pg_logical_emit_message(false, $1, $2)", [fencePrefix, name]);
      await client.query("commit");
      return "logged";
    } catch (error) {
      this.#shapes.delete(name);
      const outcome = outcomes[sqlStateOf(error) ?? ""];
      if (outcome === undefined) throw error;
      await client.query("rollback");
      return outcome;
    }
  }
}
