// Notes the keys that changes touch, of tables that are copied beside the stream: in the open transaction, before the changes
// themselves. A key that is noted without need costs little; one that is missing would let the copy's older row take the place of a newer.

import { keyAlone, type TupleRef } from "../../../change/tuple.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { MergeSession } from "../apply/merge-session.ts";
import type { NetChanges } from "../apply/net-changes.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import { StagedRows } from "../apply/staged-rows.ts";
import type { TouchedTable } from "./touched-keys.ts";

/**
 * What the changes make of a key's row. `whole`: all of it, or nothing is left of it. `part`: values that the source did not send stay
 * as they are at the sink. `moved`: it may hold such values of a row that had another key.
 */
const touch = { whole: 0, part: 1, moved: 2 } as const;
type Touch = (typeof touch)[keyof typeof touch];

const onConflict: Readonly<Record<Touch, string>> = {
  [touch.whole]: "do update set is_partial = false, is_moved = false where t.is_partial",
  [touch.part]: "do nothing",
  [touch.moved]: "do update set is_partial = true, is_moved = true",
};

/** All keys of a batch's changes of one table. */
export async function noteNetChanges(
  session: MergeSession,
  table: PreparedTable,
  net: NetChanges,
): Promise<void> {
  for (const touched of session.touched.allOf(table.relation)) {
    await noteEntries(new Notes(session, table, touched), net);
  }
}

async function noteEntries(notes: Notes, net: NetChanges): Promise<void> {
  for (let entry = 0; entry < net.size; entry++) {
    if (!net.isTaken(entry)) continue;
    const isPart = net.kindOf(entry) === "update" && net.unchangedOf(entry).length > 0;
    notes.add(isPart ? touch.part : touch.whole, net.tupleOf(entry));
  }
  await notes.write();
}

/** A row that moves from one key to another, by a change that is applied by itself. */
export async function noteMove(
  session: MergeSession,
  table: PreparedTable,
  from: TupleRef,
  to: TupleRef,
): Promise<void> {
  for (const touched of session.touched.allOf(table.relation)) {
    // One after the other: both may be the same key.
    for (const [how, tuple] of [
      [touch.whole, from],
      [touch.moved, to],
    ] as const) {
      const notes = new Notes(session, table, touched);
      notes.add(how, tuple);
      await notes.write();
    }
  }
}

class Notes {
  readonly #staged: StagedRows;
  readonly #kinds = new Set<Touch>();

  constructor(
    session: MergeSession,
    private readonly table: PreparedTable,
    private readonly touched: TouchedTable,
  ) {
    this.#staged = new StagedRows(session, table);
  }

  add(what: Touch, { bytes, start }: TupleRef): void {
    // Of another table's row its own copy has nothing to bring.
    const how = this.touched.tableId === this.table.relation.id ? what : touch.whole;
    const key = keyAlone(bytes, start, this.table.key);
    this.#staged.add(how, { bytes: key, start: 0, end: key.length });
    this.#kinds.add(how);
  }

  async write(): Promise<void> {
    for (const how of this.#kinds) {
      await this.#staged.over([how], (condition) => this.#sql(how, condition));
    }
  }

  #sql(how: Touch, condition: string): string {
    const { table, touched } = this;
    const values = touched.keyNames.map((name) => `s.c${table.columnNames.indexOf(name)}`).join(", ");
    const keys = touched.keyNames.map((_, i) => `k${i}`).join(", ");
    const isPartial = how !== touch.whole;
    // Keys whose bytes differ may be the same: a statement must not meet one twice.
    return (
      `insert into ${sqlName(touched.notes)} as t (${keys}, is_partial, is_moved) ` +
      `select distinct ${values}, ${isPartial}, ${how === touch.moved} from pg_temp.${table.staging} s where ${condition} ` +
      `on conflict (${keys}) ${onConflict[how]}`
    );
  }
}
