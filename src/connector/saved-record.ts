// A record that a connector's source or sink keeps of itself in the state, opaque to all others.

/** A text, and parts beside it, each with a name that is not empty. */
export interface SavedRecord {
  readonly text: string;
  readonly parts: ReadonlyMap<string, string>;
}

/** What becomes of parts, by name: null removes one, and those that are not named stay. */
export type ChangedParts = ReadonlyMap<string, string | null>;
