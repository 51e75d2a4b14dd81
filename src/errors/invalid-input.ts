// What people give and cannot be used: requests and settings.

import { MillraceError, type Violation } from "./millrace-error.ts";

export function invalidRequest(violations: readonly Violation[]): MillraceError {
  return new MillraceError("invalid_request", "The request is not valid; `errors` lists what is wrong.", {
    violations,
  });
}

/** `message`: which setting, and how to mend it. */
export function invalidSetting(message: string): MillraceError {
  return new MillraceError("invalid_setting", message);
}
