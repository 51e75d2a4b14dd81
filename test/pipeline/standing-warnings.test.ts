import { expect, test } from "bun:test";
import { StandingWarnings } from "../../src/pipeline/standing-warnings.ts";

test("the end of one warning leaves those of other topics standing", () => {
  const warnings = new StandingWarnings();
  expect(warnings.text).toBeNull();
  warnings.set("tables", "Table t was rewritten.");
  warnings.set("slot", "Waits for process 1.");
  warnings.set("slot", "Waits for process 2.");
  expect(warnings.text).toBe("Table t was rewritten. Waits for process 2.");
  warnings.set("slot", null);
  expect(warnings.text).toBe("Table t was rewritten.");
  warnings.set("tables", null);
  expect(warnings.text).toBeNull();
});
