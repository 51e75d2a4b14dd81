// What a connector is behind by, while its attempts fail and begin anew.

import { expect, test } from "bun:test";
import { RunMeasurement } from "../../../src/runtime/metrics/run-measurement.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";

const stood = "0/100";
const nowMs = 60_000;

/** An attempt has failed at a change of 20 seconds ago. */
function failed(): RunMeasurement {
  const measurement = new RunMeasurement();
  measurement.attemptBegan();
  measurement.measured(runMetrics({ resumeLsn: stood, lagBytes: 0 }));
  expect(measurement.lagSeconds(nowMs)).toBe(0);
  measurement.measured(runMetrics({ resumeLsn: stood, behindSinceMs: 40_000, lagBytes: 900 }));
  measurement.attemptEnded();
  return measurement;
}

const lag = (measurement: RunMeasurement) => [measurement.lagSeconds(nowMs), measurement.total?.lagBytes];

test("a stream that has yet to bring the change again is as far behind as before", () => {
  const measurement = failed();
  expect(lag(measurement)).toEqual([20, 900]);
  for (let attempt = 2; attempt < 4; attempt++) {
    measurement.attemptBegan();
    measurement.measured(runMetrics({ resumeLsn: stood, lagBytes: 0 }));
    expect(lag(measurement)).toEqual([20, 900]);
    measurement.attemptEnded();
  }
  measurement.runBegan();
  measurement.attemptBegan();
  measurement.measured(runMetrics({ resumeLsn: stood, lagBytes: 0 }));
  expect(lag(measurement)).toEqual([20, 900]);
});

test("a change that has come again counts as the stream says, and none once it is durable", () => {
  const measurement = failed();
  measurement.attemptBegan();
  measurement.measured(runMetrics({ resumeLsn: stood, behindSinceMs: 40_000, lagBytes: 950 }));
  expect(lag(measurement)).toEqual([20, 950]);
  measurement.measured(runMetrics({ resumeLsn: stood, lagBytes: 0 }));
  expect(lag(measurement)).toEqual([0, 0]);
});

test("a stream that resumes further on has left the change behind", () => {
  const measurement = failed();
  measurement.attemptBegan();
  measurement.measured(runMetrics({ resumeLsn: "0/200", lagBytes: 0 }));
  expect(lag(measurement)).toEqual([0, 0]);
});
