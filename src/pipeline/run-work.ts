// The work that an attempt of a run is given.

/**
 * What one attempt of a run is to do.
 * - `changes`: copy what is missing, then carry changes and tasks until it is stopped.
 * - `copies`: copy what is missing, carry out the tasks that wait, and be done.
 * - `tasks`: carry out the tasks that wait, and be done.
 */
export type RunWork = "changes" | "copies" | "tasks";
