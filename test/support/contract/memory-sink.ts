// The smallest sink that keeps the contract of src/sink/sink.ts and src/sink/copy-sink.ts, over rows in memory: another one can begin from here.
// Where the contract leaves a choice to the sink, it makes the simple one:
//
// - A transaction is written as a whole, its checkpoint with it: no change comes twice.
// - A table has its changes whether it has a copy or not: a first copy takes the place of all that is there.
// - A copy is one chunk, the whole table as of a point. Changes from before the point are left out when they come later. Those that came since
//   the copy was begun are applied once more, over the chunk's rows. So no row is ever incomplete.

import { ChangeKind } from "../../../src/change/change-batch.ts";
import { isStillCopyOf } from "../../../src/change/copy-fingerprint.ts";
import { type Lsn, zeroLsn } from "../../../src/change/lsn.ts";
import type { TableShape } from "../../../src/change/relation.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { Sink, SinkContext } from "../../../src/sink/sink.ts";
import type { SetAsideTable } from "../../../src/sink/sink-events.ts";
import type { DecodedChange, Row } from "../rows/decoded-changes.ts";
import { columnsOf, decodedChanges, decodedRows, keyOf, nameOf } from "../rows/decoded-changes.ts";
import { type Held, type MemoryStore, standing } from "./memory-store.ts";

export interface HeldTable {
  /** By their keys. */
  rows: Map<string, Row>;
  /** The table as it is, where a copy of it counts. */
  copyOf: TableShape | null;
  /** The point of the last copy, and what that brought. */
  asOf: Lsn;
  copied: ReadonlyMap<string, Row>;
}

export function memorySink(
  store: MemoryStore,
  { signal, events }: Pick<SinkContext, "signal" | "events">,
): Sink {
  const change = <T>(apply: (held: Held) => T) => store.change(apply, signal);
  /** Copies under way, and what the stream has brought of their tables since. */
  const begun = new Set<{ shape: TableShape; changes: DecodedChange[]; isSpoiled: boolean }>();
  /** By their names. */
  const setAside = new Map<string, SetAsideTable>();
  /** Of a transaction whose end is still to come. */
  const open: DecodedChange[] = [];

  const copies: Sink["copies"] = {
    async begin(shape, mode, during, stop) {
      const { key } = shape.relation;
      const ended = AbortSignal.any([signal, stop]);
      const copy = { shape, changes: [] as DecodedChange[], isSpoiled: false };
      begun.add(copy);
      const changeTable = (apply: (table: HeldTable) => void) =>
        store.change((held) => {
          const isAltered = copy.changes.some((each) => columnsOf(each) !== columnsOf(shape));
          if (copy.isSpoiled || isAltered) throw new MillraceError("table_changed", "It is not what it was.");
          apply(tableOf(held, shape));
        }, ended);
      return {
        // It could run for tables without a key too: they show that it may have to wait.
        stream: key.length > 0 ? during : "waits",
        start: async () => ({ form: "text", ranges: null }),
        async take(chunk) {
          const copied = await decodedRows(chunk, ended);
          await changeTable((table) => {
            const others = mode === "merge" && key.length > 0 ? table.rows : [];
            Object.assign(table, { rows: new Map([...others, ...copied]), copied, asOf: chunk.lsn });
            for (const each of copy.changes) applyChange(table, each);
          });
          chunk.progress(copied.size, 0);
        },
        settle: async () => "all",
        async finish() {
          await changeTable((table) => Object.assign(table, { copyOf: shape }));
          setAside.delete(nameOf(shape));
          events.setAside([...setAside.values()]);
          return "all";
        },
        [Symbol.asyncDispose]: async () => void begun.delete(copy),
      };
    },
    rowsForm: () => "text",
    takeRows: () => Promise.reject(new Error("No row is incomplete.")),
  };

  return {
    copies,
    open: () => change(standing),
    begin: (checkpoint) => change((held) => void Object.assign(held, { checkpoint })),
    goOnIn: (log) => change(({ checkpoint }) => void Object.assign(checkpoint ?? {}, { log })),
    forget: () =>
      change((held) => {
        held.checkpoint = null;
        // The next stream may begin before the point of a copy: of another log.
        for (const table of held.tables.values()) Object.assign(table, { copyOf: null, asOf: zeroLsn });
      }),
    async prepare(shapes, _forms, unreadable = []) {
      setAside.clear();
      for (const { table, reason } of unreadable)
        setAside.set(nameOf(table), { ...table.relation, since: null, reason, commands: [] });
      events.setAside([...setAside.values()]);
      const selected = new Map(shapes.map((shape) => [nameOf(shape), shape]));
      for (const copy of begun)
        copy.isSpoiled ||= !isStillCopyOf(copy.shape, selected.get(nameOf(copy.shape)));
      const later = unreadable.filter(({ isDue }) => !isDue).map(({ table }) => table);
      const cannotCome = new Set([...later, ...[...begun].map(({ shape }) => shape)].map(nameOf));
      const missing = await change((held) => {
        for (const [name, table] of held.tables) {
          const shape = selected.get(name);
          table.copyOf = shape && table.copyOf && isStillCopyOf(table.copyOf, shape) ? shape : null;
        }
        const lacking = shapes.filter((shape) => tableOf(held, shape).copyOf === null);
        return lacking.filter((shape) => !cannotCome.has(nameOf(shape)));
      });
      return { form: "text", missing, behind: [] };
    },
    async write(batch) {
      signal.throwIfAborted();
      open.push(...decodedChanges(batch));
      if (batch.endsInTransaction) return;
      const changes = open.splice(0);
      const checkpoint = await change((held) => {
        for (const each of changes) {
          for (const copy of begun) if (nameOf(copy.shape) === nameOf(each)) copy.changes.push(each);
          applyChange(tableOf(held, each), each);
        }
        held.checkpoint = { ...held.checkpoint!, resumeLsn: batch.resumeLsn };
        return held.checkpoint;
      });
      const bytes = changes.reduce((sum, each) => sum + each.bytes, 0);
      events.durable(checkpoint, changes.length, bytes);
    },
    flush: async () => signal.throwIfAborted(),
    [Symbol.asyncDispose]: async () => {},
  };
}

function tableOf({ tables }: Held, of: Pick<TableShape, "relation">): HeldTable {
  const table = tables.get(nameOf(of)) ?? { rows: new Map(), copyOf: null, asOf: zeroLsn, copied: new Map() };
  tables.set(nameOf(of), table);
  return table;
}

function applyChange({ rows, copied, asOf }: HeldTable, change: DecodedChange): void {
  const { kind, relation, commitLsn, before, after } = change;
  const isLate = commitLsn < asOf;
  const to = after && keyOf(relation, after);
  const from = before ? keyOf(relation, before, rows) : to;
  const row = { ...rows.get(from ?? ""), ...after };
  // Of the rows that the copy did not bring, the stream removes those that a merge has left.
  for (const key of kind === ChangeKind.truncate ? rows.keys().toArray() : [from ?? ""])
    if (!(isLate && copied.has(key))) rows.delete(key);
  if (to && !isLate) rows.set(to, row);
}
