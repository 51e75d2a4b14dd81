// Copies that a run makes by itself count towards its progress. A task has a progress of its own.

import type { ProgressMeter } from "../progress-meter.ts";
import type { CopyStates } from "../table-states.ts";

/** Tells `meter` too what `states` is told. */
export function countedStates(meter: ProgressMeter, states: CopyStates): CopyStates {
  const tell = (what: (told: CopyStates) => void) => [meter, states].forEach(what);
  return {
    expects: (table) => tell((told) => told.expects(table)),
    began: (table) => tell((told) => told.began(table)),
    copying: (table, rows, bytes) => tell((told) => told.copying(table, rows, bytes)),
    inPhase: (table, phase, rowsWritten) => tell((told) => told.inPhase(table, phase, rowsWritten)),
    copied: (table) => tell((told) => told.copied(table)),
    gaveUp: (table, unreadable) => tell((told) => told.gaveUp(table, unreadable)),
  };
}
