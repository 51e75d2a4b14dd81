// What an installation stores of one connector, and the term of whoever may write it: a write under an older term is refused, as the
// state's stores do it.

import type { ChangedParts, SavedRecord } from "../../../src/connector/saved-record.ts";
import { leaseLost } from "../../../src/errors/lease-lost.ts";
import type { RecordOwner } from "../../../src/runtime/threads/messages.ts";
import type { LiveState } from "../runtime/live-run.ts";
import { withSave } from "../webhook/memory-record.ts";

export class ReplicaState {
  /** Of the replica that has taken the connector last. */
  term = 0;
  initialized = false;
  /** Writes that were refused. */
  refused = 0;
  readonly createdAt = new Date();
  readonly #records = new Map<RecordOwner, SavedRecord>();

  take(): number {
    return ++this.term;
  }

  /** As the replica sees it that has the connector under this term. */
  under(term: number): LiveState {
    const check = () => {
      if (term === this.term) return;
      this.refused += 1;
      throw leaseLost();
    };
    const records = this.#records;
    return {
      initialized: this.initialized,
      begun: async () => {
        check();
        this.initialized = true;
      },
      load: async (owner) => records.get(owner) ?? null,
      save: async (owner: RecordOwner, text: string, parts: ChangedParts) => {
        check();
        records.set(owner, withSave(records.get(owner) ?? null, text, parts));
      },
    };
  }
}
