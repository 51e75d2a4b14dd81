import { expect, test } from "bun:test";
import { areConnectionsBounded, parallelCopies } from "../../../src/connector/config/parallel-copies.ts";
import { taskShares } from "../../../src/pipeline/tasks/with-stream.ts";
import { fullConnection, postgresSink, postgresSource } from "../../support/api/connector-config.ts";

const settings = { host: "h", port: 1, user: "u", password: "", database: "d" };

function sides(sourceSize: number, sinkSize: number, isParallel = true) {
  const connection = (max_pool_size: number) => fullConnection(settings, { max_pool_size });
  return {
    source: {
      postgres: postgresSource(settings, {
        connection: connection(sourceSize),
        parallel_snapshots_enabled: isParallel,
      }),
    },
    sink: { postgres: postgresSink(settings, { connection: connection(sinkSize) }) },
  };
}

const copies = (...sizes: Parameters<typeof sides>) => parallelCopies(sides(...sizes));

test("the number of copies is at least one, and within the connections that either side allows", () => {
  expect(copies(0, 0)).toBe(4);
  expect(copies(0, 4)).toBe(2);
  expect(copies(7, 0)).toBe(2);
  expect(copies(1, 0)).toBe(1);
  expect(copies(20, 10)).toBe(8);
  expect(copies(20, 10, false)).toBe(1);
});

test("a bound that is high enough gives at least what none gives, also where the other side has none", () => {
  expect([copies(50, 0), copies(0, 50), copies(50, 50)]).toEqual([7, 7, 45]);
  const { source } = sides(50, 0);
  expect(parallelCopies({ source, sink: {} })).toBe(7);
  const shares = (...sizes: Parameters<typeof sides>) => {
    const bounded = sides(...sizes);
    const { limit, parallel } = taskShares({
      parallelCopies: parallelCopies(bounded),
      areConnectionsBounded: areConnectionsBounded(bounded),
    });
    return [limit, parallel];
  };
  expect(shares(0, 0)).toEqual([2, 2]);
  expect([shares(12, 0), shares(0, 9), shares(12, 9)]).toEqual([
    [2, 2],
    [2, 2],
    [2, 2],
  ]);
  expect([shares(11, 0), shares(0, 8), shares(11, 50)]).toEqual([
    [1, 3],
    [1, 3],
    [1, 3],
  ]);
  expect(shares(50, 0)).toEqual([2, 2]);
});

test("connections are limited if either side says so", () => {
  expect([sides(0, 0), sides(9, 0), sides(0, 4)].map(areConnectionsBounded)).toEqual([false, true, true]);
});
