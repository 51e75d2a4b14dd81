// Which rows of a table without a key its copy brings: nothing else would tell that those of the stream are the same.

import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import { holdsCopy } from "../record/sink-record.ts";

export class KeylessCopies {
  /** Tables whose first copies are on their way, and the points of these; null: it is not known yet. */
  readonly #awaited = new Map<string, Lsn | null>();

  constructor(
    private readonly keeper: Pick<RecordKeeper, "record" | "leavesOut">,
    /** Otherwise copies bring nothing. */
    private readonly sendsReads: boolean,
  ) {}

  /** The first copy of the table is to come: until its point is known it brings what the stream does. Also where it is given up: another comes. */
  expect(name: string): void {
    this.#awaited.set(name, null);
  }

  /** The copy is as of this point. */
  isAsOf(name: string, point: Lsn): void {
    this.#awaited.set(name, point);
  }

  /** Whether a copy has brought, or will bring, the row of change `i`. */
  brings(batch: ChangeBatch, i: number, { name, relation }: CompiledTable): boolean {
    if (relation.key.length > 0 || !this.sendsReads) return false;
    if (this.keeper.leavesOut(name)) return batch.kind[i] !== ChangeKind.truncate;
    const kind = batch.kind[i];
    if (kind !== ChangeKind.insert && kind !== ChangeKind.update) return false;
    const { copied } = this.keeper.record;
    const awaited = holdsCopy(copied, name) ? undefined : this.#awaited.get(name);
    if (awaited === null) return true;
    const point = awaited ?? copied.get(name)?.lsn;
    return point !== undefined && batch.transactions.commitLsn[batch.transaction[i]!]! < point;
  }
}
