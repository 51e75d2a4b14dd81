// The bucket bounds of measured distributions, the same in every thread.

export const rowBounds = [1, 10, 100, 1_000, 10_000, 100_000];

export const secondBounds = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5],
  ...[1, 2.5, 5, 10, 30, 60, 300],
];
