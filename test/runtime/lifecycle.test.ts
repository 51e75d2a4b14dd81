// The effects of API calls and of a worker's end: status, runs, deletion, tasks, restarts. Real state and real threads.

import { expect, test } from "bun:test";
import { lsn } from "../../src/change/lsn.ts";
import { configurationTag, type Precondition } from "../../src/connector/request/precondition.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";
import { newTask } from "../../src/connector/task-state.ts";
import { noTables, SavedTables } from "../../src/sink/delivery/record/recorded-tables.ts";
import { begunRecord, formatRecord, parseRecord } from "../../src/sink/delivery/record/sink-record.ts";
import { recordOfObjects } from "../../src/source/source-state.ts";
import { plantedSecret, sampleRequest, sampleWebhookRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

const scripted = (name: string) => ({ ...sampleRequest(), name });
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => "accepted",
    (error: { code?: string }) => error.code,
  );

async function statusWhere(
  runtime: RuntimeFixture,
  id: string,
  matches: (status: ConnectorStatus) => boolean,
) {
  return waitFor(`the status of ${id}`, async () => {
    const { status } = await runtime.connectors.get(id);
    return matches(status) && status;
  });
}

const isRealtime = ({ state }: ConnectorStatus) => state.realtime !== undefined;

test("a new connector runs, and Stop, Start and Restart work", async () => {
  await using runtime = await RuntimeFixture.open();
  const created = await runtime.connectors.create({ ...scripted("stay"), id: "" });
  const { id } = created.connector;
  expect(id).toMatch(/^[0-9a-z]{26}$/);
  await statusWhere(runtime, id, isRealtime);
  await runtime.connectors.command(id, "Start");
  expect((await runtime.connectors.get(id)).run_id).toBe(created.run_id);

  await runtime.connectors.command(id, "Stop");
  await statusWhere(runtime, id, ({ state }) => state.shutdown !== undefined);
  await runtime.connectors.command(id, "Start");
  const started = await waitFor("a new run", async () => {
    const seen = await runtime.connectors.get(id);
    return seen.run_id !== created.run_id && isRealtime(seen.status) && seen;
  });
  await runtime.connectors.command(id, "Restart");
  await waitFor("another run", () => runtime.runs === 3);
  expect((await runtime.connectors.get(id)).run_id).not.toBe(started.run_id);
  const phases = (await runtime.connectors.history(id)).map((entry) => Object.keys(entry.status.state)[0]);
  expect(phases.slice(0, 5)).toEqual(["start", "realtime", "shutdown", "start", "realtime"]);
});

test("a disabled connector does not run until it is enabled", async () => {
  await using runtime = await RuntimeFixture.open();
  expect(await runtime.connectors.createOrReplace("off", { ...scripted("stay"), disabled: true }, null)).toBe(
    "created",
  );
  await statusWhere(runtime, "off", ({ state }) => state.disabled !== undefined);
  expect(runtime.runs).toBe(0);
  await runtime.connectors.patch("off", { disabled: false });
  await statusWhere(runtime, "off", isRealtime);
});

test("a replaced connector starts a new run, keeps its secrets, and does nothing if nothing changed", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("stay"), null);
  await statusWhere(runtime, "orders", isRealtime);
  const before = await runtime.connectors.get("orders");
  expect(await runtime.connectors.createOrReplace("orders", scripted("stay"), null)).toBe("replaced");
  expect((await runtime.connectors.get("orders")).run_id).toBe(before.run_id);

  const request = structuredClone(scripted("save"));
  if (request.source.postgres) delete request.source.postgres.connection.password;
  await runtime.connectors.createOrReplace("orders", request, null);
  const after = await runtime.connectors.get("orders");
  expect(after.run_id).not.toBe(before.run_id);
  expect(after.connector.source.postgres?.connection.password).toBe(plantedSecret);
  await statusWhere(runtime, "orders", ({ state }) => state.realtime?.name === "record of orders, kept");
  expect(runtime.dropped).toEqual([]);
});

test("twenty replacements at once leave one run, of the last one", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("stay"), null);
  const calls = Array.from({ length: 20 }, (_, index) =>
    runtime.connectors.patch("orders", { limits: { cdc: { flush_interval_ms: index + 1 } } }),
  );
  await Promise.all(calls);
  const { connector, run_id } = await runtime.connectors.get("orders");
  expect(connector.limits?.cdc?.flush_interval_ms).toBe(20);
  await waitFor(
    "the last run",
    async () => (await runtime.connectors.history("orders")).at(-1)?.run_id === run_id,
  );
});

test("of calls at once that demand what only one finds, one counts", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const codes = async (calls: readonly Promise<unknown>[]) => {
    const ends = await Promise.allSettled(calls);
    return ends.map((end) => (end.status === "fulfilled" ? "done" : end.reason.code)).sort();
  };
  const body = (name: string) => ({ ...scripted("stay"), disabled: true, name });
  const four = ["a", "b", "c", "d"];
  const oneDone = ["done", ...Array(3).fill("precondition_failed")];
  const isNew: Precondition = { ifMatch: null, ifNoneMatch: "any" };
  const made = four.map((name) => connectors.createOrReplace("orders", body(name), null, isNew));
  expect(await codes(made)).toEqual(oneDone);
  const seen: Precondition = {
    ifMatch: [configurationTag((await connectors.get("orders")).connector)],
    ifNoneMatch: null,
  };
  const changed = four.map((name) => connectors.patch("orders", { name: `${name}2` }, seen));
  expect(await codes(changed)).toEqual(oneDone);
  expect((await connectors.get("orders")).connector.name).toBe("a2");
  expect(await codes([connectors.createOrReplace("orders", body("e"), null, seen)])).toEqual([
    "precondition_failed",
  ]);
  expect(await codes([connectors.command("orders", "Delete", seen)])).toEqual(["precondition_failed"]);
  expect((await connectors.get("orders")).connector.name).toBe("a2");
});

test("a second id with the same slot name, and a clone of an unknown connector, are refused", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("my-orders", scripted("stay"), null);
  expect(await codeOf(runtime.connectors.createOrReplace("MY_orders", scripted("stay"), null))).toBe(
    "conflict",
  );
  expect(await codeOf(runtime.connectors.createOrReplace("new", scripted("stay"), "nobody"))).toBe(
    "connector_not_found",
  );
  expect(await codeOf(runtime.connectors.command("nobody", "Start"))).toBe("connector_not_found");
});

async function storeComparison(runtime: RuntimeFixture, id: string): Promise<void> {
  const spec = { Verify: { database: "shop", schema: "public", name: "t", repair: "None" as const } };
  const found = { as_of_lsn: "0/1", rows: 7, ranges: 1, missing: 3, extra: 0, changed: 0, repaired: 0 };
  const result = { ...found, sample: [] };
  const task = await runtime.state.tasks.create(id, newTask(Bun.randomUUIDv7(), spec, Date.now()));
  await runtime.state.tasks.change(id, task.id, (each) => ({ ...each, state: "Done", result }));
  runtime.metrics.verified(id, { spec }, result);
}

const differences = async (runtime: RuntimeFixture) =>
  (await runtime.metrics.text()).split("\n").find((line) => line.startsWith("millrace_verify_differences{"));

test("ReInitialize cleans up at the source and discards the checkpoint", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  await runtime.state.sinkRecords.save("orders", "record", new Map(), null);
  await runtime.state.sourceRecords.save("orders", "notes", new Map(), null);
  await runtime.connectors.command("orders", "Stop");
  await storeComparison(runtime, "orders");
  expect(await differences(runtime)).toBe('millrace_verify_differences{connector="orders"} 3');
  await runtime.connectors.command("orders", "ReIntialize");
  await waitFor("it starts over", () => runtime.runs === 2);
  expect(runtime.dropped).toEqual(["orders"]);
  await statusWhere(runtime, "orders", ({ state }) => state.realtime?.name === "first");
  expect(await runtime.state.sinkRecords.load("orders")).toBeNull();
  expect(await runtime.state.sourceRecords.load("orders")).toBeNull();
  // What was found is of rows that are no longer there.
  expect(await runtime.state.tasks.verified("orders")).toEqual([]);
  expect(await differences(runtime)).toBeUndefined();
});

test("ReInitialize of a disabled connector is refused, and drops nothing", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  await runtime.connectors.createOrReplace("orders", { ...scripted("begin"), disabled: true }, null);
  await statusWhere(runtime, "orders", ({ state }) => state.disabled !== undefined);
  expect(await codeOf(runtime.connectors.command("orders", "ReInitialize"))).toBe("conflict");
  expect(await codeOf(runtime.connectors.command("orders", "ReIntialize"))).toBe("conflict");
  expect((await runtime.state.connectors.find("orders"))?.cleanup).toBeNull();
  expect(runtime.dropped).toEqual([]);
});

test("ReInitialize keeps the last version, because the source's clock may have gone back behind it", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  const anHourAhead = BigInt(Date.now() + 3_600_000) * 1000n;
  const position = { commitLsn: lsn(1n), ordinal: 0 };
  const record = {
    ...begunRecord({ resumeLsn: lsn(1n), partial: null, lastVersion: anHourAhead }),
    versionSteps: [{ behind: position, version: anHourAhead + 5n }],
  };
  const parts = new SavedTables(noTables).take({
    ...noTables,
    copied: new Map([["public.t", { identity: "of t", lsn: lsn(1n) }]]),
  });
  expect(parts.size).toBe(1);
  await runtime.state.sinkRecords.save("orders", formatRecord(record), parts, null);
  for (const run of [2, 3]) {
    await runtime.connectors.command("orders", "ReInitialize");
    await waitFor("it starts over", () => runtime.runs === run);
    const saved = await runtime.state.sinkRecords.load("orders");
    expect(saved && parseRecord(saved)).toEqual({ kind: "forgotten", lastVersion: anHourAhead + 5n });
    expect(saved?.parts.size).toBe(0);
  }
});

test("Resume is for a connector that has lost its slot, and once it goes on, it is none of these", async () => {
  await using runtime = await RuntimeFixture.open();
  const codeOfResume = () => codeOf(runtime.connectors.command("orders", "Resume"));
  await runtime.connectors.createOrReplace("orders", scripted("lost"), null);
  await statusWhere(runtime, "orders", ({ status }) => status.failed !== undefined);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  await runtime.connectors.command("orders", "Resume");
  await waitFor("it goes on", async () => {
    const stored = await runtime.state.connectors.find("orders");
    return stored?.initialized && !stored.resumes;
  });
  expect(await codeOfResume()).toBe("conflict");
  // A run that follows meets another loss as the first one did.
  await runtime.connectors.command("orders", "Restart");
  await statusWhere(runtime, "orders", ({ status }) => status.failed !== undefined);
  await runtime.connectors.command("orders", "Stop");
  await runtime.connectors.command("orders", "Resume");
  expect(await codeOfResume()).toBe("conflict");
});

test("Resume is refused where the next run copies everything: after ReInitialize, and at another address", async () => {
  await using runtime = await RuntimeFixture.open();
  const refused = async () => {
    await runtime.connectors.command("orders", "Stop");
    await statusWhere(runtime, "orders", ({ state }) => state.shutdown !== undefined);
    const resume = runtime.connectors.command("orders", "Resume");
    expect(await resume.catch((error: unknown) => error)).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("copies everything"),
    });
  };
  const begun = () =>
    waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await begun();
  const moved = structuredClone(scripted("begin"));
  if (moved.source.postgres) moved.source.postgres.connection.host = "elsewhere";
  await runtime.connectors.command("orders", "Stop");
  await runtime.connectors.createOrReplace("orders", moved, null);
  await refused();
  await runtime.connectors.command("orders", "Start");
  await begun();
  await runtime.connectors.createOrReplace("orders", scripted("stay"), null);
  await runtime.connectors.command("orders", "ReInitialize");
  await refused();
});

test("another source makes the connector start over, and the old source is cleaned up as soon as it is free", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  const moved = structuredClone(scripted("stay"));
  if (moved.source.postgres) moved.source.postgres.connection.host = "elsewhere";
  await runtime.connectors.createOrReplace("orders", moved, null);
  await waitFor("the run at the new source", () => runtime.runs === 2);
  await statusWhere(runtime, "orders", ({ state }) => state.realtime?.name === "first");
  expect(runtime.dropped).toEqual(["orders"]);
});

/** As after a run that was about to make slot and publications. */
async function createWithObjects(runtime: RuntimeFixture, id: string): Promise<void> {
  await runtime.connectors.createOrReplace(id, scripted("stay"), null);
  await runtime.state.sourceRecords.save(id, recordOfObjects, new Map(), null);
}

test.each<[string, object]>([
  ["is disabled", { disabled: true }],
  ["never reached its source", {}],
  [
    "only copies",
    { source: { postgres: { ...scripted("stay").source.postgres, replication_type: { snapshot: {} } } } },
  ],
])("a connector that %s is gone at once, whatever its source does", async (_, change) => {
  await using runtime = await RuntimeFixture.open();
  runtime.isSourceAway = true;
  await runtime.connectors.createOrReplace("orders", { ...scripted("stay"), ...change }, null);
  await runtime.connectors.command("orders", "Delete");
  expect(await codeOf(runtime.connectors.get("orders"))).toBe("connector_not_found");
  expect(runtime.dropped).toEqual([]);
});

test("a connector that has only read its source's tables leaves a slot of its name there to others", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("stay"), null);
  await runtime.state.sourceRecords.save("orders", '{"columns of 1":"{}"}', new Map(), null);
  await runtime.connectors.command("orders", "Delete");
  expect(await codeOf(runtime.connectors.get("orders"))).toBe("connector_not_found");
  expect(runtime.dropped).toEqual([]);
});

test("a connector whose former objects could not be dropped still waits for its source", async () => {
  await using runtime = await RuntimeFixture.open();
  await createWithObjects(runtime, "orders");
  runtime.isSourceAway = true;
  await runtime.connectors.command("orders", "ReIntialize");
  await waitFor("it begins anew", async () => !(await runtime.state.connectors.get("orders")).cleanup);
  await runtime.connectors.command("orders", "Delete");
  await statusWhere(runtime, "orders", ({ status }) => status.retry !== undefined);
  runtime.isSourceAway = false;
  await waitFor("it is gone", async () => (await runtime.state.connectors.find("orders")) === null);
  expect(runtime.dropped).toEqual(["orders"]);
});

test("Delete waits for its source, ForceDelete does not, and the log names what is left behind", async () => {
  await using runtime = await RuntimeFixture.open();
  runtime.isSourceAway = true;
  await createWithObjects(runtime, "orders");
  await runtime.connectors.command("orders", "Delete");
  const waiting = await statusWhere(runtime, "orders", ({ status }) => status.retry !== undefined);
  expect(waiting).toMatchObject({ state: { shutdown: {} } });
  expect(waiting.status.retry?.reason).toMatch(/waits for the source: .*nothing answers.* ForceDelete/);
  expect(waiting.last_error?.reason).toBe(waiting.status.retry?.reason);
  await statusWhere(runtime, "orders", ({ status }) => (status.retry?.attempt ?? 0) > 1);
  expect(await codeOf(runtime.connectors.command("orders", "Start"))).toBe("conflict");
  await runtime.restart();
  expect(runtime.runs).toBe(1);
  const task = { Snapshot: { schema: "public", name: "orders" } };
  expect(await codeOf(runtime.tasks.create("orders", task))).toBe("conflict");
  await runtime.connectors.command("orders", "ForceDelete");
  expect(await codeOf(runtime.connectors.get("orders"))).toBe("connector_not_found");
  expect(runtime.lines.join("")).toContain("pg_drop_replication_slot('millrace_orders')");

  runtime.isSourceAway = false;
  await createWithObjects(runtime, "orders");
  await runtime.connectors.command("orders", "Delete");
  expect(await codeOf(runtime.connectors.get("orders"))).toBe("connector_not_found");
  expect(runtime.dropped).toEqual(["orders"]);
  expect(await runtime.connectors.createOrReplace("orders", scripted("stay"), null)).toBe("created");
});

test("repeated deletion requests do not restart the deletion", async () => {
  await using runtime = await RuntimeFixture.open();
  await createWithObjects(runtime, "orders");
  await statusWhere(runtime, "orders", isRealtime);
  runtime.dropTakesMs = 1_500;
  const asked: Promise<void>[] = [];
  const isThere = async () => (await codeOf(runtime.connectors.get("orders"))) === "accepted";
  const begunAt = performance.now();
  while (await isThere()) {
    const again = runtime.connectors.command("orders", asked.length % 2 ? "Delete" : "ForceDelete");
    asked.push(again.catch(() => {}));
    await Bun.sleep(200);
    expect(performance.now() - begunAt).toBeLessThan(10_000);
  }
  await Promise.all(asked);
  expect(asked.length).toBeGreaterThan(3);
  expect(runtime.dropped).toEqual(["orders"]);
});

test("a deletion in progress completes before its id is declared again", async () => {
  await using runtime = await RuntimeFixture.open();
  runtime.isSourceAway = true;
  await createWithObjects(runtime, "orders");
  await runtime.connectors.createOrReplace("other", scripted("stay"), null);
  await runtime.connectors.command("orders", "Delete");
  // As after a service that died in between.
  await runtime.beginAnew();
  runtime.isSourceAway = false;
  const runs = runtime.runs;
  await runtime.supervisor.startDeletions();
  expect(await runtime.connectors.createOrReplace("orders", scripted("stay"), null)).toBe("created");
  expect([runtime.dropped, (await runtime.connectors.list()).map(({ connector }) => connector.id)]).toEqual([
    ["orders"],
    ["other", "orders"],
  ]);
  expect(runtime.runs).toBe(runs);
  await runtime.supervisor.start();
  await waitFor("the runs", () => runtime.runs === runs + 2);
});

test("a deletion also removes objects at the connector's former source", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("begin"), null);
  await waitFor("it has begun", async () => (await runtime.state.connectors.find("orders"))?.initialized);
  const moved = structuredClone(scripted("stay"));
  if (moved.source.postgres) moved.source.postgres.connection.host = "elsewhere";
  const former = (await runtime.connectors.get("orders")).connector.source.postgres?.connection.host ?? "";
  // Before the supervisor reconciles.
  await Promise.all([
    runtime.connectors.createOrReplace("orders", moved, null),
    runtime.connectors.command("orders", "ReIntialize"),
    runtime.connectors.command("orders", "Delete"),
  ]);
  expect(await codeOf(runtime.connectors.get("orders"))).toBe("connector_not_found");
  expect(runtime.droppedAt).toContain(former);
  expect(runtime.droppedAt).toContain("elsewhere");
});

test("a worker that dies affects nothing else, and its connector is retried", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("steady", scripted("stay"), null);
  await runtime.connectors.createOrReplace("broken", scripted("crash"), null);
  const status = await statusWhere(runtime, "broken", (seen) => (seen.status.retry?.attempt ?? 0) >= 2);
  expect(status.last_error?.code).toBe("internal");
  expect(status.last_error?.reason).toMatch(
    /^The worker thread replication broken failed: .*the script says so$/,
  );
  expect(status.state.realtime).toBeDefined();
  expect(isRealtime((await runtime.connectors.get("steady")).status)).toBe(true);
});

test("a transient error is retried; a permanent one fails the run in its phase until Start", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("away", scripted("unreachable"), null);
  await statusWhere(runtime, "away", (seen) => (seen.status.retry?.attempt ?? 0) >= 3);
  await runtime.connectors.createOrReplace("refused", scripted("refused"), null);
  const failed = await statusWhere(runtime, "refused", ({ status }) => status.failed !== undefined);
  expect(failed).toMatchObject({
    state: { realtime: {} },
    status: {
      failed: {
        reason: "Source 127.0.0.1:1: The password is wrong. Put that right, then send the command Start.",
      },
    },
  });
  const { run_id } = await runtime.connectors.get("refused");
  await runtime.connectors.command("refused", "Start");
  expect((await runtime.connectors.get("refused")).run_id).not.toBe(run_id);
});

test("a run that ignores stop is terminated", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("deaf", scripted("deaf"), null);
  await statusWhere(runtime, "deaf", isRealtime);
  await runtime.connectors.command("deaf", "Stop");
  await statusWhere(runtime, "deaf", ({ state }) => state.shutdown !== undefined);
  expect(runtime.lines.join("")).toContain("cut off");
});

test("a webhook connector has a second worker, which ends with it", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("hook", { ...sampleWebhookRequest(), name: "stay" }, null);
  await statusWhere(runtime, "hook", isRealtime);
  await runtime.connectors.command("hook", "Stop");
  await statusWhere(runtime, "hook", ({ state }) => state.shutdown !== undefined);
});

test("tasks run, fail, are retried and survive a restart", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", scripted("stay"), null);
  const create = (name: string) => runtime.tasks.create("orders", { Snapshot: { schema: "public", name } });
  const ids = {
    good: (await create("good")).id,
    missing: (await create("missing")).id,
    flaky: (await create("flaky")).id,
  };
  const hangs = (await create("hangs")).id;
  const stateOf = async (id: string) => (await runtime.tasks.get("orders", id)).state;
  await waitFor("Done", async () => (await stateOf(ids.good)) === "Done");
  await waitFor("Failed", async () => (await stateOf(ids.missing)) === "Failed");
  expect((await runtime.tasks.get("orders", ids.missing)).reason).toBe("There is no such table.");
  const flaky = await waitFor("a second attempt is due", async () => {
    const task = await runtime.tasks.get("orders", ids.flaky);
    return task.next_attempt_at !== undefined && task;
  });
  expect(flaky).toMatchObject({ state: "Pending", attempt: 1, reason: "The line went dead." });
  await runtime.tasks.retry("orders", ids.flaky);
  await waitFor(
    "the retry was taken",
    async () => (await runtime.tasks.get("orders", ids.flaky)).attempt === 2,
  );

  await waitFor("Running", async () => (await stateOf(hangs)) === "Running");
  expect(await codeOf(runtime.tasks.cancel("orders", hangs))).toBe("conflict");
  expect(runtime.supervisor.taskLoad("orders").running).toBe(1);
  await runtime.connectors.command("orders", "Stop");
  await waitFor("Pending again", async () => (await stateOf(hangs)) === "Pending");
  expect((await runtime.tasks.cancel("orders", hangs)).state).toBe("Cancelled");
  expect((await runtime.tasks.cancel("orders", hangs)).state).toBe("Cancelled");
  const waiting = await create("later");
  await runtime.restart();
  expect(await stateOf(waiting.id)).toBe("Pending");
  await runtime.connectors.command("orders", "Start");
  await waitFor("Done", async () => (await stateOf(waiting.id)) === "Done");
});

test("no log line and no metric contains a secret", async () => {
  await using runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("hook", { ...sampleWebhookRequest(), name: "crash" }, null);
  await statusWhere(runtime, "hook", (seen) => (seen.status.retry?.attempt ?? 0) >= 2);
  const metrics = await runtime.metrics.text();
  expect(metrics).toContain('millrace_connectors{state="realtime"');
  expect(metrics).toContain('millrace_build_info{version="1.2.3"} 1');
  expect(runtime.lines.join("") + metrics).not.toContain(plantedSecret);
});
