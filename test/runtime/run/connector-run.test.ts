// One attempt and its threads: its outcome, and what it leaves behind.

import { expect, test } from "bun:test";
import { ConnectorRun, type RunEvents, workerThreads } from "../../../src/runtime/run/connector-run.ts";
import { sampleConfig } from "../../support/api/sample-connector.ts";
import { waitFor } from "../../support/wait-for.ts";

const worker = new URL("../../support/runtime/scripted.worker.ts", import.meta.url);
const stopMs = 50;

/** `name` is the worker's script. */
function start(name: string, change: Partial<RunEvents> = {}) {
  const lines: string[] = [];
  const events: RunEvents = {
    status: () => {},
    initialized: async () => {},
    metrics: () => {},
    pulse: () => {},
    setAside: () => {},
    tables: () => {},
    claimTask: async () => true,
    taskProgress: () => {},
    taskDone: () => {},
    taskFailed: () => {},
    loadRecord: async () => null,
    saveRecord: async () => {},
    parking: async () => null,
    receipts: async () => {},
    log: ({ message }) => lines.push(message),
    ...change,
  };
  const request = {
    connector: { ...sampleConfig("orders"), name },
    runId: "run",
    owner: "me",
    term: null,
    work: "changes" as const,
    initialized: false,
    resumes: false,
    isAfterRefusal: false,
    counted: null,
  };
  return {
    run: new ConnectorRun(
      request,
      events,
      workerThreads(8, { replication: worker, delivery: worker }),
      stopMs,
    ),
    lines,
  };
}

test("a run that is asked to stop while it ends by itself does not count as unresponsive", async () => {
  const { run, lines } = start("refused");
  // The worker has sent its last message by then, and is still running.
  await waitFor("the line after its last message", () => lines.includes("said"));
  run.stop();
  expect(await run.ended).toMatchObject({ code: "source_authentication_failed" });
  // It ran longer than the limit for a stop.
  expect(lines).toEqual(["begun", "said"]);
});

test("a hundred attempts do not leak the memory of their threads", async () => {
  const residentAfter = async (count: number) => {
    for (let attempt = 0; attempt < count; attempt++) await start("crash").run.ended;
    Bun.gc(true);
    return process.memoryUsage.rss();
  };
  const before = await residentAfter(20);
  expect((await residentAfter(100)) - before).toBeLessThan(50_000_000);
});
