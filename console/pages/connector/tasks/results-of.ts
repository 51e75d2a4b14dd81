// Which result a task has. Pure.

import type { ReplayResult } from "../../../../src/connector/replay.ts";
import type { Task } from "../../../../src/connector/task.ts";
import type { VerifyResult } from "../../../../src/connector/verification.ts";

interface Results {
  readonly found: VerifyResult | null;
  readonly sent: ReplayResult | null;
}

export function resultsOf({ result }: Pick<Task, "result">): Results {
  if (!result) return { found: null, sent: null };
  return "extra" in result ? { found: result, sent: null } : { found: null, sent: result };
}
