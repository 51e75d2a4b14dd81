// A table whose rows the sink refuses, as a client of the API sees it: which table it is, what mends it, that the others wait for it, and that
// trying again counts nothing again.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Diagnosis } from "../../src/connector/diagnosis.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";
import type { TableStatus } from "../../src/connector/table-status.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook-receiver.ts";

setDefaultTimeout(120_000);

let server: PostgresServer;
let service: ServiceProcess;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  service = await ServiceProcess.start({
    command: [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")],
    environment: {},
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function get<T>(path: string): Promise<T> {
  return (await (await fetch(`${service.url}/api/v1${path}`)).json()) as T;
}

const statusOf = async (id: string) => (await get<{ status: ConnectorStatus }>(`/connectors/${id}`)).status;

async function tableOf(id: string, name: string): Promise<TableStatus | undefined> {
  const { tables } = await get<{ tables: TableStatus[] }>(`/connectors/${id}/tables`);
  return tables.find((table) => table.name === name);
}

/** A connector that streams tables `notes` and `other`. */
async function streaming(id: string, source: string, sink: string, webhook?: string) {
  const [from, to] = [`${id}_source`, `${id}_sink`];
  await server.createDatabase(from);
  await server.createDatabase(to);
  await server.query(`${source}; create table other (id int primary key)`, from);
  await server.query(sink, to);
  const { host, port, user, password } = server;
  const connection = (database: string) => ({ host, port, user, password, database });
  const answer = await fetch(`${service.url}/api/v1/connectors/${id}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      id,
      source: { postgres: { connection: connection(from), replication_type: { logical_replication: {} } } },
      sink: webhook ? { webhook: { url: webhook } } : { postgres: { connection: connection(to) } },
    }),
  });
  expect(answer.status).toBe(201);
  await waitFor("the stream", async () => (await tableOf(id, "notes"))?.state === "Streaming");
  return {
    source: (sql: string) => server.query(sql, from),
    sink: <Row extends object>(sql: string) => server.query<Row>(sql, to),
  };
}

async function attempts(id: string, most: number): Promise<ConnectorStatus> {
  await waitFor("attempts", async () => ((await statusOf(id)).status.retry?.attempt ?? 0) >= most, {
    timeoutMs: 60_000,
  });
  return await statusOf(id);
}

const waits = "All tables of the connector wait for this one.";

test("columns of other types: both types, and the SQL that keeps all values, until it is run", async () => {
  const id = "types";
  const { source, sink } = await streaming(
    id,
    `create table notes (id int primary key, memo text, "By Whom" varchar(20), amount bigint, sure boolean);
     insert into notes values (1, '12', '7', 5, true)`,
    'create table notes (id int primary key, memo integer default 0, "By Whom" integer, amount smallint, sure text)',
  );
  await source("insert into notes values (2, '13', '8', 6, false)");
  await waitFor("the row", async () => (await sink("select from notes")).length === 2);
  await source(
    "begin; insert into other values (1); insert into notes values (3, 'secret', 'me', 7, true); commit",
  );
  const first = await attempts(id, 2);
  const commands = [
    'alter table "public"."notes" alter column "memo" drop identity if exists, alter column "memo" drop default, alter column "memo" type text using "memo"::text;',
    'alter table "public"."notes" alter column "By Whom" type text using "By Whom"::text;',
    'alter table "public"."notes" alter column "amount" type bigint using "amount"::bigint;',
  ];
  const types = [
    "Column memo is of type text at the source and of type integer at the sink.",
    "Column By Whom is of type character varying(20) at the source and of type integer at the sink.",
    "Column amount is of type bigint at the source and of type smallint at the sink.",
  ];
  const notes = await tableOf(id, "notes");
  expect(notes).toMatchObject({ state: "Waiting", commands });
  const diagnoses = await get<Diagnosis[]>(`/doctor?connector_id=${id}`);
  const told = diagnoses.filter(({ severity }) => severity === "failed").map(({ finding }) => finding);
  for (const text of [notes?.reason, first.status.retry?.reason, told.join()]) {
    expect(text).toContain("Table public.notes");
    expect(text).toContain("The server refused a value that its type does not read (SQLSTATE 22P02)");
    for (const part of [...types, ...commands, waits]) expect(text).toContain(part);
    expect(text).not.toContain("secret");
  }
  expect((await tableOf(id, "other"))?.state).toBe("Streaming");
  // Trying again brings the same changes.
  const counted = [first.progress?.rows_in, notes?.rows_in, (await tableOf(id, "other"))?.rows_in];
  expect(counted).toEqual([3, 2, 1]);
  const later = await attempts(id, 4);
  expect([later.progress?.rows_in, (await tableOf(id, "notes"))?.rows_in]).toEqual([3, 2]);
  expect((later.progress?.rows_in ?? 0) - (later.progress?.rows_durable ?? 0)).toBe(2);
  await sink(commands.join(" "));
  await waitFor("the rows", async () => (await sink("select from notes")).length === 3, {
    timeoutMs: 60_000,
  });
  await waitFor("the table", async () => (await tableOf(id, "notes"))?.state === "Streaming");
  expect(await tableOf(id, "notes")).not.toHaveProperty("reason");
  expect((await statusOf(id)).status.retry).toBeUndefined();
  expect(await sink("select memo, amount::text from notes order by id")).toEqual([
    { memo: "12", amount: "5" },
    { memo: "13", amount: "6" },
    { memo: "secret", amount: "7" },
  ]);
  const { progress } = await statusOf(id);
  expect([progress?.rows_in, progress?.rows_durable]).toEqual([3, 3]);
});

test("a check at the sink: the constraint, and the SQL that drops it", async () => {
  const id = "checks";
  const { source, sink } = await streaming(
    id,
    "create table notes (id int primary key, v text)",
    "create table notes (id int primary key, v text constraint short check (length(v) < 4))",
  );
  await source("insert into notes values (1, 'secret')");
  await attempts(id, 2);
  const notes = await tableOf(id, "notes");
  expect(notes).toMatchObject({
    state: "Waiting",
    commands: ['alter table "public"."notes" drop constraint "short";'],
  });
  expect(notes?.reason).toContain("breaks a check: constraint short");
  await sink(notes!.commands!.join(" "));
  await waitFor("the table", async () => (await tableOf(id, "notes"))?.state === "Streaming");
});

test("a receiver that refuses a request for good: the run stands at the table, and a new one goes on", async () => {
  const id = "hook";
  await using receiver = await WebhookReceiver.start();
  const { source } = await streaming(id, "create table notes (id int primary key)", "select", receiver.url);
  receiver.script = ({ path, body }) =>
    path.includes("notes") || body.includes("notes") ? { kind: "answer", status: 400, body: "no room" } : 400;
  await source("insert into notes values (1)");
  await waitFor("the end", async () => (await statusOf(id)).status.failed !== undefined);
  const notes = await tableOf(id, "notes");
  expect(notes?.state).toBe("Waiting");
  expect(notes?.reason).toContain("the receiver answered 400 to 1 row of public.notes");
  expect(notes?.reason).toContain("no room");
  expect((await statusOf(id)).status.failed?.reason).toContain(waits);
  receiver.script = () => undefined;
  await fetch(`${service.url}/api/v1/connector/command/${id}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ command: "Start" }),
  });
  await waitFor("the table", async () => (await tableOf(id, "notes"))?.state === "Streaming");
  expect(await tableOf(id, "notes")).not.toHaveProperty("reason");
});
