// What failed after the reader had closed the question that began it.

import { Store } from "./store.ts";

export interface LateFailure {
  readonly title: string;
  readonly error: unknown;
}

/** Null: nothing, or it was seen. */
export const lateFailure = new Store<LateFailure | null>(null);
