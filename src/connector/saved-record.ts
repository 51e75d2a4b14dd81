// A record that a connector's source or sink keeps in the state. It is opaque to everything else.

/** A text, and named parts. Names are not empty. */
export interface SavedRecord {
  readonly text: string;
  readonly parts: ReadonlyMap<string, string>;
}

/** Changes of parts by name; null removes a part. Parts that are not named stay. */
export type ChangedParts = ReadonlyMap<string, string | null>;
