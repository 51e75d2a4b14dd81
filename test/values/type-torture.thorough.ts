import { pick } from "../support/matrix.ts";
import { describeTypeTorture } from "./type-torture.ts";

const pairs: readonly (readonly [source: number, sink: number])[] = [
  [14, 14],
  [15, 15],
  [16, 16],
  [17, 17],
  [18, 18],
  [14, 18],
  [18, 14],
  [17, 18],
  [16, 17],
  [15, 16],
  [18, 17],
];

const tried = pick(pairs, ([source, sink]) => source === 17 && sink === 18);
for (const [source, sink] of tried) describeTypeTorture(source, sink);
