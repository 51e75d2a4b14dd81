// The term that a run belongs to. Terms count the holders of a connector: each replica that takes it over begins the next
// one. What a lower term still does is refused where the state, the source and the sink can tell.

/**
 * How many terms one life of a connector may have. One that is deleted and made again under its id begins a million higher, in
 * `make_lease` of the state: what a replica still does for the connector before must not pass for its own.
 */
export const termsOfLife = 1_000_000;

/** Null: there is one replica alone, so nothing is fenced. */
export type Term = number | null;
