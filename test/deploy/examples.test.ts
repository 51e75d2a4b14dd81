// The files of deploy/ that others read: the compose file's databases, roles and connectors on real servers, and what the unit and
// the manifest say.

import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Receiver } from "../../src/demo/receiver.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/compiled-binary.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(120_000);

const deploy = join(import.meta.dirname, "..", "..", "deploy");
const read = (...path: string[]) => readFileSync(join(deploy, ...path), "utf8");

interface Composed {
  readonly services: Record<
    string,
    {
      environment?: Record<string, string>;
      volumes?: string[];
      command?: string[];
      read_only?: boolean;
      cap_drop?: string[];
    }
  >;
}
const compose = Bun.YAML.parse(read("compose.yaml")) as Composed;

test("the roles of the compose file may do what its connectors need", async () => {
  const binary = await compiledBinary();
  const hba = ["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"];
  await using source = await PostgresServer.start({ settings: { fsync: "off" }, hba });
  await using sink = await PostgresServer.start({ settings: { fsync: "off" }, hba });
  for (const [server, database, script] of [
    [source, "shop", "source.sql"],
    [sink, "warehouse", "sink.sql"],
  ] as const) {
    await server.createDatabase(database);
    await server.query(read("compose", script), database);
  }
  await using receiver = Receiver.start();
  const directory = await mkdtemp(join(tmpdir(), "millrace-compose-"));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
  const at = (port: number) => `"host": "127.0.0.1", "port": ${port}`;
  const connectors = read("compose", "connectors.json")
    .replaceAll('"host": "source"', at(source.port))
    .replaceAll('"host": "sink"', at(sink.port))
    .replaceAll("http://receiver:8080", receiver.url);
  const file = join(directory, "connectors.json");
  await Bun.write(file, connectors);
  const { MILLRACE_API_TOKEN: _, ...environment } = compose.services.millrace?.environment ?? {};
  await using _service = await ServiceProcess.start({
    ...{ command: [binary], dataDirectory: join(directory, "data"), workingDirectory: directory },
    environment: { ...environment, MILLRACE_CONFIG: file },
  });
  const items = async () =>
    (
      await sink.query<{ item: string }>("select item from orders order by id", "warehouse").catch(() => [])
    ).map(({ item }) => item);
  await waitFor("the copy", async () => (await items()).length === 2);
  await source.query("insert into orders (item) values ('a pear')", "shop");
  await waitFor("the change", async () => (await items()).includes("a pear"));
  await waitFor("the change at the receiver", () =>
    [...receiver.deliveries.values()].some(({ body }) => body.includes("a pear")),
  );
});

test("the compose file runs the service without rights that it does not need", () => {
  const { millrace } = compose.services;
  expect(millrace).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
  expect(millrace?.command?.slice(0, 1)).toEqual(["serve"]);
  const mounted = Object.values(compose.services).flatMap(({ volumes = [] }) => volumes);
  const files = mounted
    .filter((volume) => volume.startsWith("./"))
    .map((volume) => volume.split(":")[0] ?? "");
  expect(files).toHaveLength(4);
  for (const file of files) expect(read(file).length).toBeGreaterThan(0);
});

test("the manifest asks the paths that the service has, and keeps to one replica without root", () => {
  const [service, set] = Bun.YAML.parse(read("kubernetes.yaml")) as [
    { kind: string },
    { kind: string; spec: { replicas: number; template: { spec: Record<string, unknown> } } },
  ];
  expect([service.kind, set.kind, set.spec.replicas]).toEqual(["Service", "StatefulSet", 1]);
  const { containers, securityContext } = set.spec.template.spec as {
    containers: { [probe: string]: { httpGet?: { path: string } } }[];
    securityContext: { runAsNonRoot: boolean };
  };
  const [container] = containers;
  const probes = ["startupProbe", "readinessProbe", "livenessProbe"].map(
    (name) => container?.[name]?.httpGet?.path,
  );
  expect(probes).toEqual(["/readyz", "/readyz", "/healthz"]);
  expect(securityContext.runAsNonRoot).toBe(true);
  expect(container?.securityContext).toMatchObject({
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
});

test("the unit reloads by SIGHUP, gives the service time to stop, and no more than it needs", () => {
  const unit = read("millrace.service");
  const value = (key: string) => new RegExp(`^${key}=(.*)$`, "m").exec(unit)?.[1];
  expect(value("ExecStart")).toBe("/usr/local/bin/millrace serve");
  expect(value("ExecReload")).toContain("-HUP");
  expect(Number(value("TimeoutStopSec"))).toBeGreaterThan(10);
  for (const [key, wanted] of [
    ["NoNewPrivileges", "yes"],
    ["ProtectSystem", "strict"],
    ["CapabilityBoundingSet", ""],
    ["UMask", "0077"],
  ] as const) {
    expect([key, value(key)]).toEqual([key, wanted]);
  }
});
