// Which changes of a table without a key its copy brings: nothing else would tell that the rows are the same.

import { type ChangeBatch, ChangeKind, commitLsnOf } from "../../../change/change-batch.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import { holdsCopy } from "../record/sink-record.ts";

export class KeylessCopies {
  /** Tables whose first copies are to come. */
  readonly #awaited = new Set<string>();

  constructor(
    private readonly keeper: Pick<RecordKeeper, "record" | "leavesOut">,
    /** Otherwise copies bring nothing. */
    private readonly sendsReads: boolean,
  ) {}

  /** The first copy of the table is to come, and brings what the stream does until then. Where it is given up, another comes. */
  expect(name: string): void {
    this.#awaited.add(name);
  }

  /** Whether change `i` comes with a copy. Once that is made it has all that was committed before its point. */
  brings(batch: ChangeBatch, i: number, { name, relation }: CompiledTable): boolean {
    if (relation.key.length > 0 || !this.sendsReads) return false;
    if (this.keeper.leavesOut(name)) return batch.kind[i] !== ChangeKind.truncate;
    const { copied } = this.keeper.record;
    if (!holdsCopy(copied, name)) return this.#awaited.has(name);
    return commitLsnOf(batch, i) < copied.get(name)!.lsn;
  }
}
