// Reads the credentials that the service accepts from its environment. Pure.

import { invalidSetting } from "../../errors/invalid-input.ts";
import type { Authentication, Credentials } from "./authentication.ts";

type Variable = (name: string) => string | null;

/** The variables of one set of credentials. */
interface Names {
  readonly username: string;
  readonly password: string;
  readonly token: string;
}

const fullNames: Names = {
  username: "MILLRACE_USERNAME",
  password: "MILLRACE_PASSWORD",
  token: "MILLRACE_API_TOKEN",
};
const readNames: Names = {
  username: "MILLRACE_READ_USERNAME",
  password: "MILLRACE_READ_PASSWORD",
  token: "MILLRACE_READ_TOKEN",
};

/** Throws `invalid_setting` with what to set, never with a value. */
export function readAuthentication(variable: Variable): Authentication {
  const full = readCredentials(fullNames, variable);
  const readOnly = readCredentials(readNames, variable);
  if (isNone(readOnly)) return full;
  if (isNone(full)) {
    throw invalidSetting(
      "There are credentials that may only read, and none that may write: nobody could change anything. " +
        "Set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD, too.",
    );
  }
  refuseEqual(full, readOnly);
  return { ...full, readOnly };
}

function readCredentials(names: Names, variable: Variable): Credentials {
  const username = variable(names.username);
  const password = variable(names.password);
  if ((username === null) !== (password === null)) {
    throw invalidSetting(`${names.username} and ${names.password} belong together: set both, or neither.`);
  }
  if (username?.includes(":")) throw invalidSetting(`${names.username} must not contain a colon (RFC 7617).`);
  const token = variable(names.token);
  if (token !== null && !/^[\x21-\x7e]+$/.test(token)) {
    throw invalidSetting(`${names.token} must be of visible ASCII characters, without blanks (RFC 6750).`);
  }
  return {
    basic: username !== null && password !== null ? { username, password } : null,
    bearer: token === null ? null : { token },
  };
}

function isNone({ basic, bearer }: Credentials): boolean {
  return basic === null && bearer === null;
}

/** Whoever has one of the two must not have the other by it. */
function refuseEqual(full: Credentials, readOnly: Credentials): void {
  if (full.bearer && full.bearer.token === readOnly.bearer?.token) {
    throw invalidSetting(
      "MILLRACE_READ_TOKEN and MILLRACE_API_TOKEN are the same: a token may write, or only read.",
    );
  }
  const { basic } = readOnly;
  if (basic && full.basic?.username === basic.username && full.basic.password === basic.password) {
    throw invalidSetting(
      "MILLRACE_READ_USERNAME and MILLRACE_READ_PASSWORD are the same as MILLRACE_USERNAME and MILLRACE_PASSWORD: " +
        "a user may write, or only read.",
    );
  }
}
