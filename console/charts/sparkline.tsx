interface SparklineProps {
  /** What it shows, for those who hear the page. */
  readonly label: string;
  /** Equally spaced; null: nothing is known. */
  readonly values: readonly (number | null)[];
}

const [width, height] = [100, 24];

/** A small chart without axes, from zero to its highest value. */
export function Sparkline({ label, values }: SparklineProps) {
  const highest = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const x = (index: number) => (values.length < 2 ? 0 : (index / (values.length - 1)) * width);
  const y = (value: number) => height - 1 - (value / highest) * (height - 2);
  const pieces = runs(values);
  const line = pieces.map((piece) => path(piece, x, y)).join("");
  const area = pieces.map((piece) => closed(piece, x, y)).join("");
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path class="area" d={area} />
      <path class="line" d={line} />
    </svg>
  );
}

type Point = readonly [index: number, value: number];
type Scale = (value: number) => number;

/** Neighbours that are known. */
function runs(values: readonly (number | null)[]): Point[][] {
  const found: Point[][] = [];
  let current: Point[] | null = null;
  for (const [index, value] of values.entries()) {
    if (value === null) {
      current = null;
      continue;
    }
    if (!current) {
      current = [];
      found.push(current);
    }
    current.push([index, value]);
  }
  return found;
}

function path(points: readonly Point[], x: Scale, y: Scale): string {
  return points
    .map(([index, value], at) => `${at === 0 ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
}

function closed(points: readonly Point[], x: Scale, y: Scale): string {
  const [first] = points[0] ?? [0];
  const [last] = points.at(-1) ?? [0];
  return `${path(points, x, y)}L${x(last).toFixed(1)} ${height}L${x(first).toFixed(1)} ${height}Z`;
}
