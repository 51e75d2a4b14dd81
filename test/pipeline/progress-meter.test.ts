// What is counted of copies that are made in parts, undone, and gone on with.

import { expect, test } from "bun:test";
import { ProgressMeter } from "../../src/pipeline/progress-meter.ts";

test("rows of ranges are counted once, whoever copied them and however often the table is begun", () => {
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const { snapshot } = meter.progress;
  meter.began("t");
  meter.resumed("t", 100);
  meter.copying("t 1", 20, 200);
  expect(snapshot).toMatchObject({ rows: 120, bytes: 200, tablesDone: 0, copying: 1 });
  meter.rangeCopied("t", "t 1");
  meter.copying("t 2", 7, 70);
  meter.gaveUp("t");
  expect(snapshot).toMatchObject({ rows: 120, bytes: 200, copying: 0 });
  // It goes on within the run, and all ranges are there to be gone on with.
  meter.began("t");
  meter.resumed("t", 120);
  expect(snapshot.rows).toBe(120);
  // It begins again: the table was altered.
  meter.resumed("t", 0);
  expect(snapshot.rows).toBe(0);
  meter.copying("t 3", 30, 300);
  meter.rangeCopied("t", "t 3");
  meter.copied("t");
  expect(snapshot).toMatchObject({ rows: 30, tablesDone: 1, copying: 0 });
  meter.resumed("t", 0);
  expect(snapshot.rows).toBe(30);
});
