// What a run reads in the name of another run's session.

import { expect, test } from "bun:test";
import { sessionName, sessionStanding } from "../../src/connection/run-session.ts";
import { newConnectorId } from "../../src/connector/connector-id.ts";

const name = "millrace apply orders";
const own = { owner: "mfz3k2ab", term: 2 };

const standing = (applicationName: string | null, run = own as Parameters<typeof sessionStanding>[2]) =>
  sessionStanding({ applicationName, isSameUser: true }, name, run);

test("a term is what tells an older session from a newer one", () => {
  expect(standing(sessionName(name, { ...own, term: 1 }))).toBe("older");
  expect(standing(sessionName(name, own))).toBe("same");
  expect(standing(sessionName(name, { ...own, term: 10 }))).toBe("newer");
});

test("a session without a term is older than any, as the replica that opened it knew none", () => {
  expect(standing(sessionName(name, { owner: own.owner }))).toBe("older");
  expect(standing(sessionName(name, { owner: own.owner, term: null }))).toBe("older");
});

test("a run without a term recognizes its own earlier attempts, as ever, and no term", () => {
  const alone = { owner: own.owner, term: null };
  expect(sessionName(name, alone)).toBe("millrace apply orders mfz3k2ab");
  expect(standing("millrace apply orders mfz3k2ab", alone)).toBe("same");
  expect(standing(sessionName(name, own), alone)).toBe("foreign");
});

test.each([
  ["of another owner", sessionName(name, { owner: "mfz3k2ac", term: 3 })],
  ["of an owner whose name begins with ours", sessionName(name, { owner: "mfz3k2abc", term: 3 })],
  ["of another connector", sessionName("millrace apply orders2", own)],
  ["without an owner", name],
  ["whose name was cut off amid the owner", `${name} mfz3k2`],
  ["that nobody may see", null],
])("a session %s is foreign", (_, applicationName) => {
  expect(standing(applicationName)).toBe("foreign");
});

test("a newer session counts under any role, an older one may be ended only under our own", () => {
  const ofOther = (term: number) =>
    sessionStanding({ applicationName: sessionName(name, { ...own, term }), isSameUser: false }, name, own);
  expect([ofOther(1), ofOther(2), ofOther(3)]).toEqual(["foreign", "foreign", "newer"]);
});

test("the longest id leaves owner and term whole in what the server keeps of a name", () => {
  const id = newConnectorId(Date.now(), (count) => new Uint8Array(count)).padEnd(30, "x");
  const owner = Date.now().toString(36);
  const long = `millrace snapshot ${id}`;
  const term = 123_456_789;
  const applicationName = sessionName(long, { owner, term });
  expect(applicationName).toHaveLength(63);
  expect(applicationName).toEndWith(` ${owner} t${term}`);
  const seenBy = (own: number) =>
    sessionStanding({ applicationName, isSameUser: true }, long, { owner, term: own });
  expect([seenBy(9), seenBy(term), seenBy(1_000_000_000)]).toEqual(["newer", "same", "older"]);
});
