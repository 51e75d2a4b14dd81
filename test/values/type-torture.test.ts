import { describeTypeTorture } from "./type-torture.ts";

/** `MILLRACE_TEST_MATRIX=all`: every version, as `bun run test:matrix` has it. */
const pairs: readonly (readonly [number, number])[] =
  process.env.MILLRACE_TEST_MATRIX === "all"
    ? [
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
      ]
    : [[17, 18]];

for (const [source, sink] of pairs) describeTypeTorture(source, sink);
