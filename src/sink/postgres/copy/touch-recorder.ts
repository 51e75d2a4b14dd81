// Records the keys that the stream touches while a table is copied incrementally: in the open transaction, before the changes themselves.
// A key that is recorded without need costs little. If one were missing, a chunk's older row would overwrite a newer one.

import { keyOnlyTuple, type TupleRef, unchangedColumns } from "../../../change/tuple.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { MergeSession } from "../apply/merge-session.ts";
import type { NetChanges } from "../apply/net-changes.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import { StagedRows } from "../apply/staged-rows.ts";
import type { TouchedTable } from "./touched-keys.ts";

/**
 * What the stream brought of a key's row. `whole`: all columns, or its deletion. `part`: the sink keeps its values of columns that the source
 * did not send. `moved`: such values may come from a row that had another key.
 */
const touch = { whole: 0, part: 1, moved: 2 } as const;
type Touch = (typeof touch)[keyof typeof touch];

const onConflict: Readonly<Record<Touch, string>> = {
  [touch.whole]: "do update set is_partial = false where t.is_partial",
  // If it was whole before, it is whole now: the sink keeps the other values.
  [touch.part]: "do nothing",
  [touch.moved]: "do update set is_partial = true where not t.is_partial",
};

/** Records all keys that a batch touches in one table. */
export async function recordNetChanges(
  session: MergeSession,
  table: PreparedTable,
  net: NetChanges,
): Promise<void> {
  const touched = session.touched.of(table.relation);
  if (touched === null) return;
  const recorder = new Recorder(session, table, touched);
  for (let entry = 0; entry < net.size; entry++) {
    if (!net.isResolved(entry)) continue;
    const isPart = net.kindOf(entry) === "update" && net.unchangedOf(entry).length > 0;
    recorder.add(isPart ? touch.part : touch.whole, net.tupleOf(entry));
  }
  await recorder.write();
}

/** Records a single change that moves a row from one key to another. */
export async function recordMove(
  session: MergeSession,
  table: PreparedTable,
  from: TupleRef,
  to: TupleRef,
): Promise<void> {
  const touched = session.touched.of(table.relation);
  if (touched === null) return;
  // What may be in the copy already may not be written whole.
  const isWhole = !session.repeats && unchangedColumns(to.bytes, to.start).length === 0;
  // One after the other, as both keys may be equal.
  for (const [how, tuple] of [
    [touch.whole, from],
    [isWhole ? touch.whole : touch.moved, to],
  ] as const) {
    const recorder = new Recorder(session, table, touched);
    recorder.add(how, tuple);
    await recorder.write();
  }
}

class Recorder {
  readonly #staged: StagedRows;
  readonly #kinds = new Set<Touch>();

  constructor(
    session: MergeSession,
    private readonly table: PreparedTable,
    private readonly touched: TouchedTable,
  ) {
    this.#staged = new StagedRows(session, table);
  }

  add(how: Touch, { bytes, start }: TupleRef): void {
    const key = keyOnlyTuple(bytes, start, this.table.key);
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
    // Keys with different bytes may be equal: ON CONFLICT DO UPDATE must not meet one twice.
    return (
      `insert into ${sqlName(touched.keys)} as t (${keys}, is_partial) ` +
      `select distinct ${values}, ${isPartial} from pg_temp.${table.staging} s where ${condition} ` +
      `on conflict (${keys}) ${onConflict[how]}`
    );
  }
}
