// Without copies (skip_snapshots): warns of tables that had rows before they were published, or whose copy has ceased to count, as no change
// brings what they lack.

import { qualifiedName, type TableShape } from "../change/relation.ts";
import { listedNames } from "../errors/listed-names.ts";
import type { RunHealth } from "./run-health.ts";

export class LateTables {
  /** OIDs of tables that have no copy that counts, and lack changes. */
  #late: ReadonlySet<number> = new Set();

  constructor(private readonly reporter: Pick<RunHealth, "warn">) {}

  /** There are tables that the run warns of until they are copied. */
  get areAny(): boolean {
    return this.#late.size > 0;
  }

  /** `missing`: tables without a copy that counts. `isBeginning`: the slot is new, so that nobody expects earlier rows. */
  warnOf(missing: readonly TableShape[], isBeginning: boolean): void {
    const late = missing.filter(({ relation, coverage }) => {
      const isUnpublished = !isBeginning && coverage?.isUnpublished === true;
      return this.#late.has(relation.id) || isUnpublished || coverage?.isVoid === true;
    });
    if (late.length === 0 && this.#late.size === 0) return;
    this.#late = new Set(late.map(({ relation }) => relation.id));
    const names = late.map(({ relation }) => qualifiedName(relation));
    const reason =
      `The sink may lack rows and values of ${listedNames(names)}: those from before the table's changes were published, or what its copy has ` +
      "lost or missed since. Nothing is copied by itself (skip_snapshots): create a Snapshot task for each.";
    this.reporter.warn("late tables", names.length === 0 ? null : reason);
  }
}
