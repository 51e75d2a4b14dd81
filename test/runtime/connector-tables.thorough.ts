// Where a connector's tables stand, through the service's threads: while it runs, is stopped, fails, starts again, and after a restart of the service.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import type { TableStatus } from "../../src/connector/table-status.ts";
import { pick } from "../support/matrix.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(120_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

type Kind = "postgres" | "webhook" | "rounds";

const two =
  "create table a (id int primary key); create table b (id int primary key); insert into a values (1)";

async function made(id: string, kind: Kind, url: string, sql = two): Promise<ConnectorRequest> {
  await server.createDatabase(`${id}_source`);
  await server.createDatabase(`${id}_sink`);
  await server.query(sql, `${id}_source`);
  const { host, port, user, password } = server;
  const connection = (database: string) => ({ host, port, user, password, database });
  const replication_type = kind === "rounds" ? { snapshot: {} } : { logical_replication: {} };
  return {
    id,
    source: { postgres: { connection: connection(`${id}_source`), replication_type } },
    sink: kind === "webhook" ? { webhook: { url } } : { postgres: { connection: connection(`${id}_sink`) } },
  };
}

const shown = (tables: readonly TableStatus[]) =>
  tables.map(({ name, state, rows_in }) => `${name} ${state} ${rows_in}`);

async function until(runtime: RuntimeFixture, id: string, expected: readonly string[]): Promise<void> {
  const seen = async () => shown(await runtime.connectors.tables(id));
  await waitFor("the tables", async () => Bun.deepEquals(await seen(), expected)).catch(() => {});
  expect(await seen()).toEqual([...expected]);
}

const insert = (id: string, sql: string) => server.query(sql, `${id}_source`);

const phaseOf = async (runtime: RuntimeFixture, id: string) =>
  Object.keys((await runtime.connectors.get(id)).status.state)[0];

// A webhook's durable rows are also those of the first copies.
const sinks = [
  ["postgres", 5],
  ["webhook", 6],
] as const;

test.each(pick(sinks, ([kind]) => kind === "postgres"))(
  "a %s sink: a run that is disturbed counts on, another begins at zero, and what was known stays",
  async (kind, durable) => {
    await using receiver = await WebhookReceiver.start();
    await using runtime = await RuntimeFixture.open("real");
    const id = `tables_${kind}`;
    await runtime.connectors.createOrReplace(id, await made(id, kind, receiver.url), null);
    await until(runtime, id, ["a Streaming 0", "b Streaming 0"]);
    await insert(id, "insert into a values (2), (3); insert into b values (1)");
    await insert(id, "begin; update a set id = 9 where id = 3; insert into b values (2); commit");
    await until(runtime, id, ["a Streaming 3", "b Streaming 2"]);
    const isDurable = async () =>
      (await runtime.connectors.get(id)).status.progress?.rows_durable === durable;
    await waitFor("all to be durable", isDurable);
    // Its walsender dies: another attempt of the same run.
    await insert(id, "select pg_terminate_backend(active_pid) from pg_replication_slots where active");
    await waitFor("another attempt", () => runtime.runs === 2);
    await insert(id, "insert into b values (3)");
    await until(runtime, id, ["a Streaming 3", "b Streaming 3"]);
    await runtime.connectors.command(id, "Stop");
    await waitFor("the stop", async () => (await phaseOf(runtime, id)) === "shutdown");
    await insert(id, "insert into a values (4)");
    expect(shown(await runtime.connectors.tables(id))).toEqual(["a Streaming 3", "b Streaming 3"]);
    await runtime.connectors.command(id, "Start");
    await until(runtime, id, ["a Streaming 1", "b Streaming 0"]);
    expect((await runtime.connectors.tables(id))[1]).not.toHaveProperty("last_change_at");
    // After a restart of the service, what a stopped connector has is not known.
    await runtime.connectors.command(id, "Stop");
    await waitFor("the stop", async () => (await phaseOf(runtime, id)) === "shutdown");
    await runtime.restart();
    expect(await runtime.connectors.tables(id)).toEqual([]);
    await runtime.connectors.command(id, "Start");
    await until(runtime, id, ["a Streaming 0", "b Streaming 0"]);
    await expect(runtime.connectors.tables("nobody")).rejects.toMatchObject({ code: "connector_not_found" });
  },
);

test("tables of a run that has failed stay as they were", async () => {
  await using runtime = await RuntimeFixture.open("real");
  const request = await made("tables_failed", "postgres", "");
  await runtime.connectors.createOrReplace("tables_failed", request, null);
  await until(runtime, "tables_failed", ["a Streaming 0", "b Streaming 0"]);
  await insert("tables_failed", "drop publication millrace_tables_failed");
  await insert(
    "tables_failed",
    "select pg_terminate_backend(active_pid) from pg_replication_slots where active",
  );
  const health = async () => (await runtime.connectors.get("tables_failed")).status.status;
  await waitFor("the failure", async () => (await health()).failed !== undefined);
  expect(shown(await runtime.connectors.tables("tables_failed"))).toEqual(["a Streaming 0", "b Streaming 0"]);
});

test("a source that cannot be reached has no tables yet", async () => {
  await using runtime = await RuntimeFixture.open("real");
  const request = await made("tables_away", "postgres", "");
  const { connection, ...rest } = request.source.postgres!;
  const source = { postgres: { ...rest, connection: { ...connection, port: 1 } } };
  await runtime.connectors.createOrReplace("tables_away", { ...request, source }, null);
  const health = async () => (await runtime.connectors.get("tables_away")).status.status;
  await waitFor("the retry", async () => (await health()).retry !== undefined);
  expect(await runtime.connectors.tables("tables_away")).toEqual([]);
});

test("a connector of rounds: what is copied counts as streamed, until the next round", async () => {
  await using runtime = await RuntimeFixture.open("real");
  const setup = `${two}; create unlogged table u (id int)`;
  await runtime.connectors.createOrReplace(
    "tables_rounds",
    await made("tables_rounds", "rounds", "", setup),
    null,
  );
  await until(runtime, "tables_rounds", ["a Streaming 0", "b Streaming 0", "u Excluded 0"]);
  const phase = async () => (await runtime.connectors.get("tables_rounds")).status.state;
  await waitFor("the end of the round", async () => (await phase()).complete !== undefined);
  // The next round cannot read one of them: its copy waits behind a lock.
  await using session = await server.connect("tables_rounds_source");
  await session.query("begin; lock table b in access exclusive mode");
  await runtime.connectors.command("tables_rounds", "ReInitialize");
  const stateOf = async (name: string) =>
    (await runtime.connectors.tables("tables_rounds")).find((table) => table.name === name)?.state;
  await waitFor("the copy", async () => (await stateOf("b")) !== "Streaming");
  expect(await stateOf("b")).toBeOneOf(["Waiting", "Copying"]);
  await waitFor("the other", async () => (await stateOf("a")) === "Streaming");
  await session.query("commit");
  await until(runtime, "tables_rounds", ["a Streaming 0", "b Streaming 0", "u Excluded 0"]);
});
