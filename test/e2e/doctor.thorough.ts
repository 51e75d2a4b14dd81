// `millrace doctor` of the compiled program, against what breaks in practice: each is named, with what mends it.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Diagnosis } from "../../src/connector/service/diagnosis.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { freeze, letGoOn } from "../support/servers/frozen-server.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { rawReceiver } from "../support/webhook/raw-receiver.ts";

let binary: string;
let directory: string;
let server: PostgresServer;
/** Of the service's state; as a source it does not log enough. */
let plain: PostgresServer;
let service: ServiceProcess;

beforeAll(async () => {
  binary = await compiledBinary();
  directory = await mkdtemp(join(tmpdir(), "millrace-doctor-"));
  [server, plain] = await Promise.all([
    PostgresServer.start({
      settings: { fsync: "off" },
      hba: [
        "host all secured 127.0.0.1/32 scram-sha-256",
        "host all all 127.0.0.1/32 trust",
        "host replication all 127.0.0.1/32 trust",
      ],
    }),
    PostgresServer.start({ settings: { fsync: "off", wal_level: "replica" } }),
  ]);
  for (const name of ["shop", "copy"]) await server.createDatabase(name);
  await plain.createDatabase("state");
  await server.query("create table orders (id int primary key, note int)", "shop");
  await server.query("create role secured login replication password 'right'");
  await server.query("create role reader login replication; grant create on database shop to reader", "shop");
  await server.query("create role writer login; revoke create on schema public from public", "copy");
  service = await ServiceProcess.start({
    command: [binary],
    environment: { DATABASE_URL: `postgres://postgres@127.0.0.1:${plain.port}/state` },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
}, 120_000);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await plain[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function millrace(...args: string[]) {
  const child = Bun.spawn([binary, ...args], {
    stdout: "pipe",
    stderr: "pipe",
    cwd: directory,
    env: { PATH: process.env.PATH ?? "", MILLRACE_URL: service.url },
  });
  const [out, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, out, error };
}

/** What is wrong with the connector, or with the service where none is named. */
async function troubles(id: string | null): Promise<{ code: number; found: Diagnosis[] }> {
  const { code, out, error } = await millrace("doctor", ...(id === null ? [] : [id]), "--json");
  if (out === "") throw new Error(error);
  const found = (JSON.parse(out) as Diagnosis[]).filter(
    ({ connector, severity }) => connector === id && severity !== "ok",
  );
  return { code, found };
}

const connection = (database: string, overrides: object = {}) => ({
  host: "127.0.0.1",
  port: server.port,
  user: "postgres",
  password: "x",
  database,
  // Without encryption on purpose: its lack is no trouble of these tests.
  ssl_mode: "Disable",
  ...overrides,
});

interface Shape {
  readonly source?: object;
  readonly sink?: object;
  readonly postgres?: object;
  readonly more?: object;
}

async function create(
  id: string,
  { source = {}, sink, postgres = {}, more = {} }: Shape = {},
): Promise<void> {
  const response = await fetch(`${service.url}/api/v1/connectors/${id}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      id,
      source: {
        postgres: {
          connection: connection("shop", source),
          replication_type: { logical_replication: { skip_snapshots: true } },
          catalog: { default_action: "Exclude", schemas: [{ name: "public", tables: [{ name: "orders" }] }] },
          ...postgres,
        },
      },
      sink: sink ?? { postgres: { connection: connection("copy"), target_schema: id } },
      ...more,
    }),
  });
  if (!response.ok) throw new Error(await response.text());
}

async function phaseIs(id: string, phase: string): Promise<void> {
  await waitFor(`${id} in ${phase}`, async () => {
    const response = await fetch(`${service.url}/api/v1/connectors/${id}`);
    const { status } = (await response.json()) as { status: { state: object; status: object } };
    return phase in status.state || phase in status.status;
  });
}

async function command(id: string, name: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const url = `${service.url}/api/v1/connector/command/${id}`;
  await fetch(url, { method: "POST", headers, body: JSON.stringify({ command: name }) });
}

test("what is well is said to be, and the exit code is 0", async () => {
  await create("well");
  await phaseIs("well", "realtime");
  const { code, out } = await millrace("doctor", "well");
  expect(out).toContain("ok       service, state: The state store answers.");
  expect(out).toContain("ok       well, status: It is in realtime.");
  expect(out).toContain("ok       well, slot: millrace_well is there");
  expect(out).toContain("clock: The source's clock and this machine's agree.");
  expect(out).toContain("ok       well, sink: Every check has passed");
  expect(code).toBe(0);
});

test("one that streams under load is well, wherever its slot has come meanwhile", async () => {
  await create("busy");
  await phaseIs("busy", "realtime");
  await using writer = await server.connect("shop");
  let isOver = false;
  const writing = (async () => {
    for (let i = 1_000; !isOver; i++) {
      await writer.query("insert into orders values ($1, 0)", [i]);
      await Bun.sleep(5);
    }
  })();
  try {
    for (let i = 0; i < 8; i++) expect((await troubles("busy")).found).toEqual([]);
  } finally {
    isOver = true;
    await writing;
  }
});

test("a wrong password, a port where nothing listens, a log level that is too low", async () => {
  await create("password", { source: { user: "secured", password: "wrong" } });
  await create("nowhere", { source: { port: 1 } });
  await create("low", { source: { port: plain.port, database: "state" } });
  const password = await troubles("password");
  expect(password.code).toBe(1);
  expect(password.found.map(({ about, finding }) => `${about} ${finding}`).join("\n")).toMatch(
    /source Authentication: The server refused/,
  );
  const nowhere = await troubles("nowhere");
  expect(nowhere.found.map(({ about, finding }) => `${about} ${finding}`).join("\n")).toMatch(
    /source Reachability: .*Nothing listens/,
  );
  const low = await troubles("low");
  const level = low.found.find(({ finding }) => finding.startsWith("wal_level"));
  expect(level).toMatchObject({ about: "source", severity: "failed" });
  expect(level?.commands).toContain("ALTER SYSTEM SET wal_level = 'logical';");
});

test("rights that are missing on either side, and a table whose rows have no names", async () => {
  await create("blind", { source: { user: "reader" } });
  const blind = await troubles("blind");
  const select = blind.found.find(({ finding }) => finding.startsWith("Select"));
  expect(select?.severity).toBe("failed");
  expect(select?.commands.join()).toContain("GRANT");
  await create("unwanted", { sink: { postgres: { connection: connection("copy", { user: "writer" }) } } });
  const unwanted = await troubles("unwanted");
  const write = unwanted.found.find(({ about }) => about === "sink");
  expect(write?.severity).toBe("failed");
  expect(write?.commands.join()).toContain("GRANT");
  await server.query("create table nameless (v int)", "shop");
  await create("nameless", {
    postgres: {
      catalog: { default_action: "Exclude", schemas: [{ name: "public", tables: [{ name: "nameless" }] }] },
    },
  });
  const nameless = await troubles("nameless");
  const identity = nameless.found.find(({ finding }) => finding.startsWith("Replica identity"));
  expect(identity).toMatchObject({ about: "source", severity: "warning" });
  expect(identity?.commands.join()).toContain("REPLICA IDENTITY");
});

test("a receiver that refuses, and one that is not there", async () => {
  await using receiver = await rawReceiver(({ socket }) =>
    socket.end("HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
  );
  await create("refused", { sink: { webhook: { url: `http://127.0.0.1:${receiver.port}` } } });
  const refused = await troubles("refused");
  expect(refused.found.map(({ about, finding }) => `${about} ${finding}`).join()).toMatch(
    /sink Authentication: .*401/,
  );
  await create("deaf", { sink: { webhook: { url: "http://127.0.0.1:1" } } });
  const deaf = await troubles("deaf");
  expect(deaf.found.map(({ about, finding }) => `${about} ${finding}`).join()).toMatch(/sink Reachability: /);
});

/** Only copies can be resumed from. */
const copying = { replication_type: { logical_replication: {} } };

test("a connector that is stopped, a slot that somebody dropped, and a table that is set aside", async () => {
  await create("stopped");
  await create("dropped", { postgres: copying });
  for (const id of ["stopped", "dropped"]) {
    await phaseIs(id, "realtime");
    await command(id, "Stop");
    await phaseIs(id, "shutdown");
  }
  expect((await troubles("stopped")).found).toMatchObject([
    { about: "status", severity: "warning", commands: ["millrace connectors start stopped"] },
  ]);
  await server.query("select pg_drop_replication_slot('millrace_dropped')");
  const slot = (await troubles("dropped")).found.find(({ about }) => about === "slot");
  expect(slot?.severity).toBe("failed");
  expect(slot?.finding).toContain("no longer exists");
  expect(slot?.finding).toContain("ReInitialize");
  // What it says to run mends it.
  expect(slot?.commands).toEqual([
    "millrace connectors resume dropped",
    "millrace connectors reinitialize dropped",
  ]);
  expect((await millrace("connectors", "resume", "dropped")).code).toBe(0);
  await phaseIs("dropped", "realtime");
  // Until its tables are compared, it says so.
  await waitFor("all to be well", async () => (await troubles("dropped")).found.length === 0, {
    timeoutMs: 30_000,
  });

  await server.query(
    "create table changing (id int primary key, v int); insert into changing values (1, 1)",
    "shop",
  );
  await create("aside", {
    sink: {
      postgres: {
        connection: connection("copy"),
        target_schema: "aside",
        migration_strategy: { allowed: ["Add"], disable_all: false },
      },
    },
    postgres: {
      replication_type: { logical_replication: {} },
      catalog: { default_action: "Exclude", schemas: [{ name: "public", tables: [{ name: "changing" }] }] },
    },
  });
  await phaseIs("aside", "realtime");
  await server.query("alter table changing alter v type text; insert into changing values (2, 'x')", "shop");
  const aside = await waitFor("the table to be set aside", async () => {
    const { found } = await troubles("aside");
    return found.find(({ finding }) => finding.startsWith("Table public.changing is set aside: "));
  });
  expect(aside).toMatchObject({ about: "status", severity: "warning" });
  expect([aside?.finding, aside?.commands.join()]).toEqual([
    expect.stringContaining("migration_strategy"),
    expect.stringContaining("alter table"),
  ]);
});

test("a connector that nobody knows", async () => {
  const { code, error } = await millrace("doctor", "unknown");
  expect([code, error.trim()]).toEqual([1, "millrace: There is no connector of this id."]);
});

test("a slot whose log the server has removed", async () => {
  await create("late", { postgres: copying });
  await phaseIs("late", "realtime");
  await command("late", "Stop");
  await phaseIs("late", "shutdown");
  await server.query("alter system set max_slot_wal_keep_size = '1MB'");
  await server.query("select pg_reload_conf()");
  await server.query("create table filler (v text)", "copy");
  for (let n = 0; n < 3; n++) {
    await server.query("insert into filler select repeat('x', 1000) from generate_series(1, 20000)", "copy");
    await server.query("select pg_switch_wal()");
  }
  await server.query("checkpoint");
  const slot = (await troubles("late")).found.find(({ about }) => about === "slot");
  expect(slot?.severity).toBe("failed");
  expect(slot?.finding).toContain("ALTER SYSTEM SET max_slot_wal_keep_size = -1");
  await command("late", "Start");
  await phaseIs("late", "failed");
  for (const about of ["status", "slot"]) {
    const of = (await troubles("late")).found.find((each) => each.about === about);
    expect(of?.commands).toEqual([
      "millrace connectors resume late",
      "millrace connectors reinitialize late",
    ]);
  }
});

test("a state store that does not answer", async () => {
  await freeze(plain);
  try {
    const { code, found } = await troubles(null);
    expect([code, found[0]?.about, found[0]?.severity]).toEqual([1, "state", "failed"]);
    expect(found[0]?.finding).toContain("does not answer");
  } finally {
    await letGoOn(plain);
  }
});

test("no service at all", async () => {
  await service.stop();
  const { code, out, error } = await millrace("doctor");
  expect(code).toBe(3);
  expect(out).toContain("FAILED   service, status: No service answers at");
  expect(out).toContain("systemctl status millrace");
  expect(error).toContain("1 of 3 examinations have failed.");
});
