// The term that a run belongs to. Terms count the holders of a connector: each replica that takes it over begins the next
// one. What a lower term still does is refused where the state, the source and the sink can tell.

/** Null: there is one replica alone, so nothing is fenced. */
export type Term = number | null;
