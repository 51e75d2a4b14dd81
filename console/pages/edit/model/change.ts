// One thing that was changed, for people.

export interface Change {
  readonly path: string;
  /** Null: nothing was there. */
  readonly before: string | null;
  /** Null: it is taken out. */
  readonly after: string | null;
}
