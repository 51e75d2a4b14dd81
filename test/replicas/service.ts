// Replicas of the built program over one state: they share the connectors, take over from one that dies, and answer for all.

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { type Replica, ReplicaStage } from "../support/replicas/replica-stage.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(120_000);

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await ReplicaStage.start();
});
afterEach(async () => {
  await stage?.[Symbol.asyncDispose]();
});

const ids = ["one", "two", "three", "four"];

/** Two replicas with two connectors each. */
async function two(): Promise<readonly [Replica, Replica]> {
  const a = await stage.join("a");
  const b = await stage.join("b");
  for (const id of ids) await stage.toPostgres(a, id);
  await stage.untilStreaming(b, ids);
  await waitFor("an even share", async () => {
    const holders = [...(await stage.holders(b)).values()];
    return ["a", "b"].every((name) => holders.filter((holder) => holder === name).length === 2);
  });
  return [a, b];
}

const heldBy = async (replica: Replica, name: string) =>
  [...(await stage.holders(replica))].filter(([, holder]) => holder === name).map(([id]) => id);

test("one that is killed is replaced within ten seconds, and takes its share when it is back", async () => {
  const [a, b] = await two();
  const orphans = await heldBy(b, "a");
  const kept = await heldBy(b, "b");
  await a.service.kill();
  const took = await Promise.all(orphans.map((id) => stage.passRow(id)));
  expect(Math.max(...took)).toBeLessThan(10_000);
  expect(await stage.passRow(kept[0] ?? "")).toBeLessThan(2_000);
  await waitFor("all at b", async () => (await heldBy(b, "b")).length === 4);
  await a.service.launch();
  await waitFor("an even share", async () => (await heldBy(b, "a")).length === 2);
  for (const id of ids) await stage.passRow(id);
});

test("one that leaves in order gives its connectors back at once", async () => {
  const [a, b] = await two();
  const left = await heldBy(b, "a");
  await a.service.stop();
  for (const id of left) expect(await stage.passRow(id)).toBeLessThan(3_000);
});

test("a command that one replica is sent takes effect at the other, and both show it", async () => {
  const [a, b] = await two();
  const [id = ""] = await heldBy(a, "b");
  const stateAt = async ({ api }: Replica) => (await api.connector(id)).status.state;
  await a.api.command(id, "Stop");
  for (const replica of [a, b])
    await waitFor("it to be stopped", async () => (await stateAt(replica)).shutdown, { timeoutMs: 3_000 });
  await a.api.command(id, "Start");
  await waitFor("it to stream", async () => (await stateAt(a)).realtime, { timeoutMs: 5_000 });
  await stage.passRow(id);
  const task = { Snapshot: { schema: "public", name: "orders" } };
  await a.api.call("POST", `/api/v1/connectors/${id}/tasks`, task);
  const tasks = () => a.api.call<{ state: string }[]>("GET", `/api/v1/connectors/${id}/tasks`);
  await waitFor("the task", async () => (await tasks()).every(({ state }) => state === "Done"));
  await a.api.deleteConnector(id);
  for (const replica of [a, b]) expect(await replica.api.exists(id)).toBe(false);
  const slots = await stage.server.query("select from pg_replication_slots");
  expect(slots).toHaveLength(3);
});

test("a connector that is deleted and made again at once is run again", async () => {
  const a = await stage.join("a");
  await stage.toPostgres(a, "one");
  await stage.untilStreaming(a, ["one"]);
  await a.api.deleteConnector("one");
  const sink = { postgres: { connection: stage.server.connection("one") } };
  await a.api.createConnector("one", { source: stage.source(), sink });
  await stage.untilStreaming(a, ["one"]);
  await stage.passRow("one");
});

test("replicas that declare the same connectors start at once, and each connector is there once", async () => {
  await stage.server.createDatabase("declared");
  const sink = { postgres: { connection: stage.server.connection("declared") } };
  const file = await stage.writeFile("connectors.json", {
    connectors: [{ id: "declared", source: stage.source(), sink }],
  });
  const names = ["a", "b", "c"];
  const replicas = await Promise.all(names.map((name) => stage.join(name, { MILLRACE_CONFIG: file })));
  await stage.untilStreaming(replicas[0]!, ["declared"]);
  await stage.passRow("declared");
  for (const { service } of replicas) expect(service.log).not.toContain("could not be declared");
});

test("the same id twice is refused, and so is another encryption key", async () => {
  const a = await stage.join("a");
  const twice = await stage.spawn("a");
  const readiness = () => fetch(`${twice.service.url}/readyz`).catch(() => null);
  // It is alive while it waits for the other one's lease to end, and takes no part.
  const answer = await waitFor("an answer", readiness);
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ detail: "The service is starting." });
  expect((await fetch(`${twice.service.url}/healthz`)).status).toBe(200);
  await waitFor("the refusal", () => twice.service.log.includes("Give this one another MILLRACE_REPLICA_ID"));
  expect((await a.api.call<{ replicas: unknown[] }>("GET", "/api/v1/replicas")).replicas).toHaveLength(1);
  expect(await twice.service.stop()).toEqual({ code: 0, signal: null });
  const other = { MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 8).toString("base64") };
  const refused = await stage.join("b", other).then(() => "it started", String);
  expect(refused).toContain("MILLRACE_ENCRYPTION_KEY");
});
