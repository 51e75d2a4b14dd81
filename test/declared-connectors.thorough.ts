// `serve --config`: connectors that a file declares, across restarts of the service.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { applyDeclared } from "../src/declared-connectors.ts";
import { ServiceProcess } from "../src/demo/service-process.ts";
import { createLog } from "../src/log.ts";
import { givenDifferences } from "./support/oracles/given-differences.ts";
import { PostgresServer } from "./support/servers/postgres-server.ts";
import { testServerCertificate, testServerKey } from "./support/servers/tls-certificates.ts";
import { waitFor } from "./support/wait-for.ts";

const command = [process.execPath, join(import.meta.dir, "..", "src", "main.ts")];
const token = "planted-token-83ab";
const secret = "DECLARED_SECRET";
let directory: string;
let server: PostgresServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-declared-"));
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

interface Shown {
  readonly connector: { readonly id: string; readonly name: string | null };
  readonly run_id: string;
}

function declared(id: string, change: object = {}) {
  const connection = {
    host: "127.0.0.1",
    port: server.port,
    user: "postgres",
    password: `$\{${secret}}`,
    database: "postgres",
  };
  const source = { postgres: { connection, replication_type: { logical_replication: {} } } };
  return { id, source, sink: { webhook: { url: "http://127.0.0.1:1/" } }, disabled: true, ...change };
}

test("they are created, left alone, or replaced; an invalid file changes nothing, and the error names the location", async () => {
  const config = join(directory, "connectors.json");
  const declare = (...connectors: object[]) => writeFile(config, JSON.stringify({ connectors }));
  await declare(declared("a"), declared("b"));
  await using service = await ServiceProcess.start({
    command,
    environment: { MILLRACE_CONFIG: config, MILLRACE_API_TOKEN: token, [secret]: "planted-password-77" },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
  const get = (path: string) =>
    fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${token}` } });
  const list = async () => {
    const response = await get("/api/v1/connectors");
    const { connectors } = (await response.json()) as { connectors: readonly Shown[] };
    return new Map(connectors.map((each) => [each.connector.id, each]));
  };
  const first = await list();
  expect([...first.keys()].sort()).toEqual(["a", "b"]);

  await declare(declared("a"), declared("b", { name: "other" }), declared("c"));
  await service.stop();
  await service.launch();
  const second = await list();
  for (const [id, outcome] of [...Object.entries({ a: "unchanged", b: "replaced", c: "created" })])
    expect(service.log).toContain(`"connector":"${id}","outcome":"${outcome}"`);
  expect(second.get("a")?.run_id).toBe(first.get("a")!.run_id);
  expect(second.get("b")?.connector.name).toBe("other");
  expect([...second.keys()].sort()).toEqual(["a", "b", "c"]);

  await declare(declared("a", { name: "new" }), declared("b", { sinks: {} }), declared("d", { schedule: 5 }));
  await service.stop();
  const statuses = () => service.log.split("connector status").length;
  const begun = statuses();
  await expect(service.launch()).rejects.toThrow(
    /--config \(MILLRACE_CONFIG\): b: \/sinks: unknown key\nd: \/schedule: expected an object/,
  );
  // No connector has started in its previous form.
  expect(statuses()).toBe(begun);
  await declare(declared("a"));
  await service.launch();
  const third = await list();
  expect(third.get("a")?.connector.name).toBeNull();
  expect([...third.keys()].sort()).toEqual(["a", "b", "c"]);

  // SIGHUP rereads the file while the service runs.
  const hangUp = async (answer: string) => {
    process.kill(service.pid ?? 0, "SIGHUP");
    await waitFor(answer, () => service.log.includes(answer));
  };
  await declare(declared("a", { name: "reloaded" }), declared("e"));
  await hangUp("the declared connectors are read again");
  const fourth = await list();
  expect(fourth.get("a")?.connector.name).toBe("reloaded");
  expect([...fourth.keys()].sort()).toEqual(["a", "b", "c", "e"]);
  // What is read is what was declared; declared again, or applied, it is no event.
  const history = async () => (await (await get("/api/v1/connector/history/e")).json()) as readonly object[];
  const events = await history();
  expect(givenDifferences(declared("e"), fourth.get("e")?.connector)).toEqual([]);
  const reloads = () => service.log.split("the declared connectors are read again").length;
  const before = reloads();
  process.kill(service.pid ?? 0, "SIGHUP");
  await waitFor("another reload", () => reloads() > before);
  const environment = {
    ...process.env,
    MILLRACE_URL: service.url,
    MILLRACE_API_TOKEN: token,
    [secret]: "planted-password-77",
  };
  const apply = Bun.spawn([...command, "connectors", "apply", "-f", config], {
    env: environment,
    stdout: "ignore",
  });
  expect(await apply.exited).toBe(0);
  expect((await list()).get("e")).toEqual(fourth.get("e")!);
  expect(await history()).toEqual(events);

  await declare(declared("a", { name: "wrong" }), declared("e", { nmae: "x" }));
  await hangUp("the declared connectors stay as they were");
  expect((await list()).get("a")?.connector.name).toBe("reloaded");
  expect(service.log).toContain("/nmae: unknown key");
  expect(service.log).not.toContain("planted");
});

test("a secret that the file no longer has is missed before anything is applied", async () => {
  const config = join(directory, "keys.json");
  const declare = (...connectors: object[]) => writeFile(config, JSON.stringify({ connectors }));
  const withTls = (tls: object) => {
    const { source, ...rest } = declared("z");
    const { connection } = source.postgres;
    return { ...rest, source: { postgres: { ...source.postgres, connection: { ...connection, ...tls } } } };
  };
  await declare(withTls({ ssl_cert: testServerCertificate, ssl_key: testServerKey }));
  await using service = await ServiceProcess.start({
    command,
    environment: { MILLRACE_CONFIG: config, [secret]: "planted-password-77" },
    dataDirectory: join(directory, "keys"),
    workingDirectory: directory,
  });
  await service.stop();
  await declare(declared("y"), withTls({ ssl_cert: testServerCertificate }));
  await expect(service.launch()).rejects.toThrow(
    "z: /source/postgres/connection/ssl_key: required with ssl_cert",
  );
  await declare();
  await service.launch();
  const { connectors } = (await (await fetch(`${service.url}/api/v1/connectors`)).json()) as {
    connectors: readonly Shown[];
  };
  expect(connectors.map(({ connector }) => connector.id)).toEqual(["z"]);
  await service.stop();
});

test("a connector that cannot be stored now does not block the others, nor the service", async () => {
  const lines: string[] = [];
  const log = createLog({ level: "info", readable: false, write: (line) => lines.push(line) });
  const conflict = { code: "conflict", detail: "The connector z is being deleted." };
  const send = async ({ method, url }: Request) => {
    if (method === "GET") return Response.json({ connectors: [] });
    if (url.includes("/debug/")) return Response.json({});
    return url.endsWith("/z") ? Response.json(conflict, { status: 409 }) : new Response("", { status: 201 });
  };
  const connectors = ["z", "a"].map((id) => ({ id, body: { id } }));
  await applyDeclared(connectors, { authentication: { basic: null, bearer: null } }, send, log);
  expect(lines.join("")).toMatch(/"connector":"z","reason":"The connector z is being deleted\."/);
  expect(lines.join("")).toMatch(/"connector":"a","outcome":"created"/);
});
