// Collects the events of a validation in test order. After the first failure it records the other tests as skipped,
// with that failure as the reason. The callers decide what to test.

import type { TestStatus, TestType, ValidateEvent } from "../connector/validation.ts";

/** The outcome of one test. `commands` fix the problem, ready to paste. */
export type Finding =
  | { readonly type: "passed"; readonly message?: string }
  | { readonly type: "warned"; readonly message: string; readonly commands?: readonly string[] }
  | { readonly type: "failed"; readonly reason: string; readonly commands?: readonly string[] }
  | { readonly type: "skipped"; readonly reason: string };

export const passed: Finding = { type: "passed" };

export function failed(reason: string, commands: readonly string[] = []): Finding {
  return { type: "failed", reason, commands };
}

export function warned(message: string, commands: readonly string[] = []): Finding {
  return { type: "warned", message, commands };
}

export function skipped(reason: string): Finding {
  return { type: "skipped", reason };
}

export class ValidationLog {
  readonly #events: ValidateEvent[] = [{ start: {} }];
  readonly #now: () => Date;
  #failure: string | null = null;

  constructor(now: () => Date = () => new Date()) {
    this.#now = now;
  }

  /** The first failure's reason, or null. */
  get failure(): string | null {
    return this.#failure;
  }

  /** Records a test's outcome; after a failure, that the test was skipped. */
  record(testType: TestType, finding: Finding): void {
    this.#append(testType, this.#failure === null ? finding : { type: "skipped", reason: this.#failure });
  }

  /** All events, the outcome last. */
  finish(): ValidateEvent[] {
    const outcome: ValidateEvent =
      this.#failure === null ? { success: {} } : { failed: { reason: this.#failure } };
    return [...this.#events, outcome];
  }

  #append(testType: TestType, finding: Finding): void {
    if (finding.type === "failed") this.#failure = finding.reason;
    const message = finding.type === "passed" || finding.type === "warned" ? finding.message : undefined;
    const commands = finding.type === "failed" || finding.type === "warned" ? finding.commands : undefined;
    this.#events.push({
      test: {
        id: crypto.randomUUID(),
        timestamp: this.#now().toISOString(),
        test_type: withSuggestions(testType, commands ?? []),
        status: statusOf(finding),
        ...(message === undefined ? {} : { message }),
        ...(commands === undefined || commands.length === 0 ? {} : { commands: [...commands] }),
      },
    });
  }
}

/** A privilege to check. Its suggestions are the commands of the finding. */
export function permission(name: string, description: string): TestType {
  return { Permission: { name, description, suggestions: [] } };
}

/** A setting to check; see `permission`. */
export function config(name: string, description: string): TestType {
  return { Config: { name, description, suggestions: [] } };
}

function withSuggestions(testType: TestType, commands: readonly string[]): TestType {
  const suggestions = [...commands];
  if (testType.Permission) return { Permission: { ...testType.Permission, suggestions } };
  if (testType.Config) return { Config: { ...testType.Config, suggestions } };
  return testType;
}

function statusOf(finding: Finding): TestStatus {
  switch (finding.type) {
    case "passed":
      return { Success: {} };
    case "warned":
      return { Warn: {} };
    case "failed":
      return { Failed: { reason: finding.reason } };
    case "skipped":
      return { Skipped: { reason: finding.reason } };
    default:
      return finding satisfies never;
  }
}
