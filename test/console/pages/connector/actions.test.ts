import { describe, expect, test } from "bun:test";
import { slotOf } from "../../../../console/connector/replication.ts";
import { actionsFor, lossCodes, resumableCodes } from "../../../../console/pages/connector/head/actions.ts";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { slotName } from "../../../../src/connector/connector-id.ts";
import type { ConnectorStatus } from "../../../../src/connector/status.ts";
import {
  lossCodes as codesOfLoss,
  resumableCodes as codesToResume,
} from "../../../../src/errors/error-codes.ts";
import { given } from "./given.ts";

const commands = (status: ConnectorStatus) => actionsFor(given({ status })).map(({ command }) => command);
const main = (status: ConnectorStatus) =>
  actionsFor(given({ status })).find(({ isMain }) => isMain)?.command ?? null;

describe("what can be done", () => {
  test("to one that runs", () => {
    const status = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
    expect(commands(status)).toEqual(["Stop", "Restart", "ReInitialize", "Delete"]);
    expect(main(status)).toBeNull();
  });

  test("to one that is stopped", () => {
    const status = { state: { shutdown: {} }, status: { complete: {} } };
    expect(commands(status)).toEqual(["Start", "ReInitialize", "Delete"]);
    expect(main(status)).toBe("Start");
  });

  test("to one that is disabled", () => {
    expect(commands({ state: { disabled: {} }, status: { complete: {} } })).toEqual(["Delete"]);
  });

  test("to one that waits for its source to be deleted", () => {
    const status = { state: { shutdown: {} }, status: { retry: { attempt: 1, reason: "It waits." } } };
    expect(commands(status)).toEqual(["ForceDelete"]);
  });

  test("to one that failed: what mends it comes first", () => {
    const failed = { state: { realtime: { name: "slot" } }, status: { failed: { reason: "Why." } } };
    const lost = {
      ...failed,
      last_error: { code: "slot_missing", reason: "Why.", at: "2026-01-01T00:00:00Z" },
    };
    expect(main(failed)).toBe("Start");
    expect(main(lost)).toBe("Resume");
    expect(commands(lost)).toEqual(["Resume", "Start", "ReInitialize", "Delete"]);
    const toWebhook = given({ status: lost, toWebhook: true });
    expect(actionsFor(toWebhook).map(({ command }) => command)).not.toContain("Resume");
    expect(actionsFor(toWebhook).find(({ isMain }) => isMain)?.command).toBe("ReInitialize");
  });
});

test("what is large or cannot be undone is asked about", () => {
  const running = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
  expect(actionsFor(given({ status: running })).every(({ question }) => question !== null)).toBe(true);
  const stopped = { state: { shutdown: {} }, status: { complete: {} } };
  expect(actionsFor(given({ status: stopped }))[0]?.question).toBeNull();
  // Here a start copies everything.
  const complete = { state: { complete: {} }, status: { complete: {} } };
  const [start] = actionsFor(given({ status: complete, copiesOnly: true }));
  expect(start).toMatchObject({ label: "Copy again now" });
  expect(start?.question?.paragraphs.join()).toContain("copies every table");
});

describe("what an action will do is said as it is", () => {
  const text = (entry: GivenConnector, command: string) =>
    actionsFor(entry)
      .find((action) => action.command === command)
      ?.question?.paragraphs.join(" ") ?? "";
  const status = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };

  test("a stop of a stream keeps the source's log", () => {
    expect(text(given({ status }), "Stop")).toContain("keep its log");
    expect(text(given({ status, copiesOnly: true }), "Stop")).not.toContain("log");
  });

  test("a new beginning without copies loses changes", () => {
    expect(text(given({ status, skipsCopies: true }), "ReInitialize")).toContain("left out");
    expect(text(given({ status }), "ReInitialize")).toContain("replaced");
    expect(text(given({ status, toWebhook: true }), "ReInitialize")).toContain("once more");
  });

  test("a deletion leaves the rows", () => {
    expect(text(given({ status }), "Delete")).toContain("tables stay with their rows");
    expect(text(given({ status, toWebhook: true }), "Delete")).not.toContain("tables stay");
  });
});

test("names and codes are the service's", () => {
  expect([...lossCodes].sort()).toEqual([...codesOfLoss].sort());
  expect([...resumableCodes].sort()).toEqual([...codesToResume].sort());
  for (const id of ["orders", "Orders-2_x"]) expect(slotOf(id)).toBe(slotName(id));
});
