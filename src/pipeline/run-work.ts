// The kinds of work that one attempt of a run can do.

/**
 * - `changes`: copy missing tables, then carry changes and run tasks until stopped.
 * - `copies`: copy missing tables, run waiting tasks, and end.
 * - `tasks`: run waiting tasks, and end.
 */
export type RunWork = "changes" | "copies" | "tasks";
