// The oracle of the end-to-end tests: both sinks of a stage come to equal its source.

import { expect } from "bun:test";
import type { DemoStage } from "../../../src/demo/demo-stage.ts";
import { isProven, verify } from "../../../src/demo/demo-verification.ts";
import { describeDifference, isEqual } from "../../../src/demo/table-comparison.ts";

/** The source is quiet. Fails with the rows that differ, and what the service wrote last. */
export async function expectEqualSinks(stage: DemoStage, boundMs = 120_000): Promise<void> {
  const verification = await verify(stage, AbortSignal.timeout(boundMs));
  if (isProven(verification)) return;
  const different = (kind: "postgres" | "webhook") =>
    verification[kind].filter((d) => !isEqual(d)).map((d) => `${kind} sink: ${describeDifference(d)}`);
  expect(
    [
      ...different("postgres"),
      ...different("webhook"),
      `contradictions: ${verification.contradictions}`,
    ].join("\n"),
    `the sinks differ from the source; the service wrote:\n${stage.service.log}`,
  ).toBe("");
}
