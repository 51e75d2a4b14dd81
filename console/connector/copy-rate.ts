// How fast rows are copied, from the counts that were seen one after the other. Pure.

export interface CopyPoint {
  readonly atMs: number;
  readonly rows: number;
}

const windowMs = 30_000;
/** Below it a rate says more about when the counts were read than about the copy. */
const leastMs = 3_000;

/** Keeps what is needed for a rate over half a minute. Fewer rows than before: another copy has begun. */
export function withCopyPoint(points: readonly CopyPoint[], point: CopyPoint): readonly CopyPoint[] {
  const last = points.at(-1);
  if (last && point.rows < last.rows) return [point];
  if (last?.atMs === point.atMs) return points;
  return [...points.filter(({ atMs }) => point.atMs - atMs <= windowMs), point];
}

/** Rows a second; null: too early to tell. That no row has come is told otherwise. */
export function copyRate(points: readonly CopyPoint[]): number | null {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || last.atMs - first.atMs < leastMs || last.rows === first.rows) return null;
  return ((last.rows - first.rows) / (last.atMs - first.atMs)) * 1000;
}
