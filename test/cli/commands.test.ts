// The commands against a real service, with a real Postgres as source and sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { rawReceiver } from "../support/webhook/raw-receiver.ts";

const main = join(import.meta.dir, "..", "..", "src", "main.ts");
const command = [process.execPath, main];
const token = "planted-token-51f2";
const readToken = "planted-token-7a3e";
/** Names of environment variables. */
const [secret, unset] = ["SECRET", "NOT_SET"];
let directory: string;
let server: PostgresServer;
let service: ServiceProcess;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-cli-"));
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "copy"]) await server.createDatabase(name);
  await server.query(
    "create table t (id int primary key); insert into t select generate_series(1, 5)",
    "shop",
  );
  service = await ServiceProcess.start({
    command,
    environment: { MILLRACE_API_TOKEN: token, MILLRACE_READ_TOKEN: readToken },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function millrace(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([...command, ...args], {
    stdout: "pipe",
    stderr: "pipe",
    cwd: directory,
    env: {
      PATH: process.env.PATH ?? "",
      MILLRACE_URL: service.url,
      MILLRACE_API_TOKEN: token,
      [secret]: "planted-secret-9d1a",
      ...environment,
    },
  });
  const [out, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, out, error };
}

function connectorFile(id: string, port: number) {
  const connection = { host: "127.0.0.1", port, user: "postgres", password: `$\{${secret}}` };
  return {
    id,
    source: {
      postgres: {
        connection: { ...connection, database: "shop" },
        replication_type: { logical_replication: {} },
      },
    },
    sink: { postgres: { connection: { ...connection, database: "copy" } } },
  };
}

test("a connector is applied from a file, shown, stopped, started, replaced and deleted", async () => {
  expect(await millrace(["connectors", "list"])).toEqual({
    code: 0,
    out: "There are no connectors.\n",
    error: "",
  });
  const file = join(directory, "c.json");
  await writeFile(file, JSON.stringify({ connectors: [connectorFile("shop", server.port)] }));
  expect(await millrace(["connectors", "apply", "-f", file])).toEqual({
    code: 0,
    out: "shop: created\n",
    error: "",
  });
  await waitFor("the stream", async () =>
    / realtime +ok /.test((await millrace(["connectors", "list"])).out),
  );
  const { out } = await millrace(["connectors", "get", "shop"]);
  expect(out).toMatch(/^id +shop\nfrom +postgres\nto +postgres\nphase +realtime\nhealth +ok\n/);
  // What was counted is told about once a second.
  await waitFor("the count of rows", async () =>
    (await millrace(["connectors", "get", "shop"])).out.includes("copied   5 rows, 1 of 1 tables"),
  );
  const whole = await millrace(["connectors", "get", "shop", "--json"]);
  expect(JSON.parse(whole.out)).toMatchObject({
    connector: { id: "shop" },
    status: { state: { realtime: {} } },
  });
  expect(whole.out).not.toContain("planted");
  expect((await millrace(["tables", "shop"])).out).toMatch(/^TABLE +STATE .*\npublic\.t +Streaming +0\n$/);
  expect(await millrace(["tables", "nobody"])).toMatchObject({ code: 1, out: "" });
  expect((await millrace(["connectors", "stop", "shop"])).out).toBe("shop: stopped\n");
  await waitFor("the end of the run", async () =>
    (await millrace(["connectors", "get", "shop"])).out.includes("shutdown"),
  );
  expect((await millrace(["connectors", "start", "shop", "--json"])).out).toBe(
    '{\n  "id": "shop",\n  "outcome": "started"\n}\n',
  );
  expect((await millrace(["connectors", "start", "shop"])).out).toContain("shop: runs already");
  const run = async () => JSON.parse((await millrace(["connectors", "get", "shop", "--json"])).out).run_id;
  const before = await run();
  expect((await millrace(["connectors", "apply", "-f", file])).out).toBe("shop: unchanged\n");
  expect(await run()).toBe(before);
  await writeFile(file, JSON.stringify({ ...connectorFile("shop", server.port), name: "Shop" }));
  expect((await millrace(["connectors", "apply", "-f", file])).out).toBe("shop: replaced\n");
  expect(await run()).not.toBe(before);
  const other = { SECRET: "planted-other-2b" };
  expect((await millrace(["connectors", "apply", "-f", file], other)).out).toBe("shop: replaced\n");
  expect(await millrace(["connectors", "apply", "-f", file, "--json"], other)).toMatchObject({
    out: '[\n  {\n    "id": "shop",\n    "outcome": "unchanged"\n  }\n]\n',
  });
  expect(await millrace(["connectors", "delete", "shop"])).toEqual({
    code: 0,
    out: "shop: deleted\n",
    error: "",
  });
  expect(await server.query("select from pg_replication_slots")).toEqual([]);
});

test("the output does not claim that a disabled connector was started", async () => {
  const file = join(directory, "disabled.json");
  await writeFile(file, JSON.stringify({ ...connectorFile("resting", server.port), disabled: true }));
  expect((await millrace(["connectors", "apply", "-f", file])).out).toBe("resting: created\n");
  for (const what of ["start", "restart"]) {
    const { code, out, error } = await millrace(["connectors", what, "resting"]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(error).toContain("resting is disabled");
  }
  const anew = await millrace(["connectors", "reinitialize", "resting"]);
  expect(anew).toMatchObject({ code: 1, out: "" });
  expect(anew.error).toContain("The connector is disabled: enable it first.");
  expect(await millrace(["connectors", "stop", "resting"])).toMatchObject({ code: 0, error: "" });
  expect((await millrace(["connectors", "delete", "resting"])).code).toBe(0);
});

test("a refusal shows each violation's path, and the exit code shows the kind of error", async () => {
  const file = join(directory, "wrong.json");
  await writeFile(file, JSON.stringify({ ...connectorFile("wrong", server.port), sources: {}, name: "" }));
  const refused = await millrace(["connectors", "apply", "-f", file]);
  const lines = ["wrong: /sources: unknown key", "wrong: /name: expected at least 1 character(s)"];
  expect(refused).toEqual({ code: 1, out: "", error: `millrace: ${lines.join("\n")}\n` });
  await writeFile(file, JSON.stringify({ id: "wrong", name: `$\{${unset}}` }));
  const lacking = await millrace(["connectors", "apply", "-f", file]);
  expect(lacking).toMatchObject({ code: 1, out: "", error: expect.stringContaining("NOT_SET") });
  expect(await millrace(["connectors", "get", "nothing"])).toMatchObject({
    code: 1,
    error: expect.stringContaining("nothing"),
  });
  const stranger = await millrace(["connectors", "list"], { MILLRACE_API_TOKEN: "" });
  expect(stranger).toMatchObject({ code: 1, error: expect.stringContaining("Set MILLRACE_API_TOKEN") });
  const nobody = await millrace(["connectors", "list", "--url", "http://127.0.0.1:1"]);
  expect(nobody).toMatchObject({ code: 3, error: expect.stringContaining("millrace serve") });
  expect((await millrace(["connectors", "apply"])).code).toBe(1);
  const twoIds = { connectors: [connectorFile("sound", server.port), connectorFile("x/y", server.port)] };
  await writeFile(file, JSON.stringify(twoIds));
  const named = await millrace(["connectors", "apply", "-f", file]);
  expect(named).toMatchObject({ code: 1, out: "", error: expect.stringContaining('"x/y" is no connector') });
  expect(await millrace(["connectors", "get", "sound"])).toMatchObject({ code: 1 });
  for (const id of ["", "..", "a b"])
    expect((await millrace(["connectors", "get", id])).error).toContain("id");
  const inUrl = await millrace(["connectors", "list", "--url", "http://me:planted@127.0.0.1:1"]);
  expect(inUrl).toMatchObject({
    code: 1,
    error: expect.stringMatching(/^(?![\s\S]*planted).*Credentials go into/),
  });
});

test("an unreachable source does not block the forced deletion of a connector", async () => {
  const file = join(directory, "far.json");
  await writeFile(file, JSON.stringify(connectorFile("far", 1)));
  expect((await millrace(["connectors", "apply", "-f", file])).out).toBe("far: created\n");
  const { error, ...deleted } = await millrace(["connectors", "delete", "far", "--force"]);
  expect(deleted).toEqual({ code: 0, out: "far: deleted\n" });
  expect(error).toContain("its slot is still there");
  const [drop = "", publications] = error.split("\n").slice(1);
  expect(publications).toBe('  DROP PUBLICATION IF EXISTS "millrace_far", "millrace_far$append";');
  // Also where the slot is gone already.
  await server.query("select pg_create_logical_replication_slot('millrace_far', 'pgoutput')", "shop");
  for (const left of [1, 0]) expect(await server.query(drop, "shop")).toHaveLength(left);
});

test("tasks are created, watched to their end, and listed; a failure sets the exit code", async () => {
  const file = join(directory, "tasks.json");
  await writeFile(file, JSON.stringify(connectorFile("tasks", server.port)));
  await millrace(["connectors", "apply", "-f", file]);
  expect(await millrace(["tasks", "list", "tasks"])).toEqual({
    code: 0,
    out: "tasks has no tasks.\n",
    error: "",
  });
  const copied = await millrace(["tasks", "snapshot", "tasks", "t", "--truncate", "--watch"]);
  expect(copied).toMatchObject({ code: 0, error: "" });
  expect(copied.out).toMatch(/public\.t {2}Done {7}\[#{20}\] 100 % {2}5 rows, \d+ B\n$/);
  const failed = await millrace(["tasks", "snapshot", "tasks", "shop.nothing", "-w"]);
  expect(failed).toMatchObject({ code: 1, error: expect.stringContaining("shop.nothing does not exist") });
  const listed = await millrace(["tasks", "list", "tasks", "--json"]);
  expect(JSON.parse(listed.out)).toMatchObject([
    { state: "Failed" },
    { state: "Done", progress: { rows: 5 } },
  ]);
  const [{ id }] = JSON.parse(listed.out);
  expect((await millrace(["tasks", "get", "tasks", id])).out).toMatch(
    /^ID .* REASON\n.* Failed +shop\.nothing /,
  );
  const watched = await millrace(["tasks", "get", "tasks", id, "--watch"]);
  expect(watched).toMatchObject({ code: 1, error: expect.stringContaining("shop.nothing does not exist") });
  expect((await millrace(["tasks", "cancel", "tasks", id])).code).toBe(1);
  expect(await millrace(["tasks", "retry", "tasks", id])).toMatchObject({ code: 0, error: "" });
  expect(await millrace(["tasks", "list", "nothing"])).toMatchObject({ code: 1 });
  await millrace(["connectors", "delete", "tasks"]);
});

test("validate and catalog work on a file and on a stored connector", async () => {
  const file = join(directory, "look.json");
  await writeFile(file, JSON.stringify(connectorFile("look", server.port)));
  const sound = await millrace(["validate", "-f", file]);
  expect(sound).toMatchObject({ code: 0, error: "" });
  expect(sound.out).toMatch(/^look, source\n {2}Success {2}Network: DnsResolution/);
  expect(sound.out).toContain("look, sink\n  Success  Network: DnsResolution");
  expect((await millrace(["catalog", "-f", file])).out).toBe(
    "TABLE     KEY  COLUMNS\npublic.t  id   id integer\n",
  );
  await millrace(["connectors", "apply", "-f", file]);
  const catalog = await millrace(["catalog", "look", "--json"]);
  expect(JSON.parse(catalog.out)).toMatchObject({ name: "shop", schemas: [{ tables: [{ name: "t" }] }] });
  expect(JSON.parse((await millrace(["validate", "look", "--json"])).out)).toMatchObject([{ id: "look" }]);
  await millrace(["connectors", "delete", "look"]);
  await writeFile(file, JSON.stringify(connectorFile("look", 1)));
  const unsound = await millrace(["validate", "-f", file]);
  expect(unsound).toMatchObject({ code: 1, error: "millrace: 2 sides failed their checks.\n" });
  expect(unsound.out).toContain("  Failed   Network: Reachability: ");
  expect((await millrace(["validate"])).error).toContain("Name a connector that is stored, or a file by -f");
});

test("an output that cannot be written is no success; one that nobody reads any more is none of its business", async () => {
  /** In a shell, which has the command's words as its own. */
  const inShell = async (script: string, ...args: string[]) => {
    const child = Bun.spawn(["sh", "-c", `${script}; echo "code $?" >&2`, "sh", ...command, ...args], {
      stdout: "ignore",
      stderr: "pipe",
      cwd: directory,
      env: { PATH: process.env.PATH ?? "", MILLRACE_URL: service.url, MILLRACE_API_TOKEN: token },
    });
    return await new Response(child.stderr).text();
  };
  for (const more of [[], ["--json"]]) {
    const said = await inShell('"$@" > /dev/full', "connectors", "list", ...more);
    expect(said).toMatch(/^millrace: The output could not be written: .*ENOSPC.*\ncode 1\n$/);
  }
  const unread = '{ "$@"; echo "code $?" >&2; } | true';
  expect(await inShell(unread, "connectors", "list")).toContain("code 0\n");
  expect(await inShell(unread, "connectors", "list")).not.toContain("millrace");
});

test("the health of the service at the environment's port sets the exit code", async () => {
  expect(await millrace(["health"])).toMatchObject({ code: 0, out: "ready\n" });
  const byPort = { MILLRACE_URL: "", MILLRACE_PORT: String(service.port), MILLRACE_API_TOKEN: "" };
  expect(await millrace(["health", "--json"], byPort)).toMatchObject({
    code: 0,
    out: '{\n  "ready": true\n}\n',
  });
  const nobody = await millrace(["health", "--url", "http://127.0.0.1:1"]);
  expect([nobody.code, nobody.out]).toEqual([3, ""]);
  expect((await millrace(["--version"])).out).toMatch(/^millrace \d+\.\d+\.\d+\n$/);
});

test("a response that is not the service's is reported as such, and a broken one as no service", async () => {
  const answers: Record<string, () => Response> = {
    html: () => new Response("<html>", { headers: { "content-type": "text/html" } }),
    empty: () => new Response(null, { status: 204 }),
    other: () => Response.json({}),
    fault: () => Response.json({ foo: 1 }, { status: 500 }),
  };
  const asked: string[] = [];
  await using stranger = Bun.serve({
    port: 0,
    fetch: ({ url }) => {
      asked.push(new URL(url).pathname);
      return answers[new URL(url).pathname.split("/")[1] ?? ""]?.() ?? new Response("", { status: 404 });
    },
  });
  for (const name of Object.keys(answers)) {
    const { code, error } = await millrace(["connectors", "list", "--url", `${stranger.url}${name}/`]);
    expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining("is none of this service's") });
  }
  expect(asked[0]).toBe("/html/api/v1/connectors");
  await using breaking = await rawReceiver(({ socket }) => {
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
  });
  const broken = await millrace(["connectors", "list", "--url", `http://127.0.0.1:${breaking.port}`]);
  expect(broken).toMatchObject({ code: 3, error: expect.stringContaining("No service answers") });
  const away = await millrace(["connectors", "list", "--url", "http://127.0.0.1:1"]);
  expect(away.error).toContain(
    "No service answers at http://127.0.0.1:1: nothing listens there (ECONNREFUSED). Start",
  );
});

test("with a token that may only read: commands that look work, and others tell why not", async () => {
  const environment = { MILLRACE_API_TOKEN: readToken };
  expect(await millrace(["connectors", "list"], environment)).toMatchObject({ code: 0, error: "" });
  const stopped = await millrace(["connectors", "stop", "none"], environment);
  expect(stopped.code).toBe(1);
  expect(stopped.error).toStartWith("millrace: These credentials may only read.");
});

test("requests to this machine bypass the environment's proxy, and all others use it", async () => {
  const asked: string[] = [];
  using proxy = Bun.serve({
    port: 0,
    fetch: (request) => {
      asked.push(request.url);
      return new Response("", { status: 502 });
    },
  });
  const environment = { HTTP_PROXY: proxy.url.href, http_proxy: proxy.url.href, NO_PROXY: "example.com" };
  for (const host of ["127.0.0.1", "localhost"]) {
    const own = await millrace(["health", "--url", `http://${host}:${service.port}`], environment);
    expect(own).toMatchObject({ code: 0, error: "" });
  }
  expect(asked).toEqual([]);
  const other = await millrace(["health", "--url", "http://millrace.invalid:3000"], environment);
  expect(other.error).toContain("The answer was 502");
  expect(asked).toEqual(["http://millrace.invalid:3000/readyz"]);
});
