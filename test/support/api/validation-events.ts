// Reads validation events as tests compare them.

import type { ValidateEvent, ValidateTest } from "../../../src/connector/validation.ts";

/** Each test as "Name: Status", in order. Permission and Config by their names. */
export function outline(events: readonly ValidateEvent[]): string[] {
  return events.map((event) => {
    if (event.start) return "start";
    if (event.success) return "success";
    if (event.failed) return `failed: ${event.failed.reason}`;
    if (!event.test) throw new Error("an event without a key");
    return `${testName(event.test)}: ${Object.keys(event.test.status)[0]}`;
  });
}

export function findTest(events: readonly ValidateEvent[], name: string): ValidateTest {
  const found = events.flatMap((event) => (event.test ? [event.test] : [])).find((t) => testName(t) === name);
  if (!found) throw new Error(`no test ${name} in ${outline(events).join(", ")}`);
  return found;
}

function testName(test: ValidateTest): string {
  const { Network, Permission, Config } = test.test_type;
  if (Network) return Network.subtype;
  if (Permission) return `Permission ${Permission.name}`;
  if (Config) return `Config ${Config.name}`;
  return Object.keys(test.test_type)[0] ?? "";
}
