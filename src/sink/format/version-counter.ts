// Gives out `_sm_version`: strictly rising in the order of the stream, and the same again on every replay
// that begins at the same checkpoint. Plain numbers: a version is below 2^53 until the year 2255.

/** The version behind `last` for a change committed at `commitTimeUs` (microseconds since 1970-01-01 UTC). */
export function nextVersion(last: number, commitTimeUs: number): number {
  return commitTimeUs > last ? commitTimeUs : last + 1;
}
