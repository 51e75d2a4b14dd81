// Findings from the events of a validation. Pure.

import { type Finding, fine } from "../connector/service/diagnosis.ts";
import type { TestType, ValidateEvent, ValidateTest } from "../connector/validation.ts";

export function validationFindings(about: "source" | "sink", events: readonly ValidateEvent[]): Finding[] {
  const found = events.flatMap(({ test }) => (test ? testFindings(about, test) : []));
  if (found.length > 0) return found;
  const failure = events.find((event) => event.failed)?.failed?.reason;
  // The validation failed outside of any test.
  if (failure !== undefined) return [{ about, severity: "failed", finding: failure, commands: [] }];
  const version = events.find(({ test }) => test?.test_type.ServerInfo)?.test?.test_type.ServerInfo?.version;
  return [
    fine(about, version === undefined ? "Every check has passed." : `Every check has passed (${version}).`),
  ];
}

function testFindings(about: "source" | "sink", test: ValidateTest): Finding[] {
  const { test_type: type, status, message, commands = [] } = test;
  if (status.Failed) {
    return [{ about, severity: "failed", finding: `${nameOf(type)}: ${status.Failed.reason}`, commands }];
  }
  if (!status.Warn || message === undefined) return [];
  return [{ about, severity: "warning", finding: `${nameOf(type)}: ${message}`, commands }];
}

function nameOf(type: TestType): string {
  const [kind = ""] = Object.keys(type);
  return type.Config?.name ?? type.Permission?.name ?? type.Network?.subtype ?? kind;
}
