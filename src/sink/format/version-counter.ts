// Gives out `_sm_version`. Versions rise strictly in the order of the stream, and are the same on every replay from the same checkpoint.
// They are plain numbers: below 2^53 until the year 2255.

/** The version after `last`, for a change committed at `commitTimeUs` (microseconds since 1970-01-01 UTC). */
export function nextVersion(last: number, commitTimeUs: number): number {
  return commitTimeUs > last ? commitTimeUs : last + 1;
}
