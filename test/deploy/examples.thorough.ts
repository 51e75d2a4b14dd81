// The files of deploy/ that others read: the compose file's databases, roles and connectors on real servers, and what the unit and
// the manifest say.

import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Receiver } from "../../src/demo/receiver.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { settingTable } from "../../src/setting-table.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(120_000);

const deploy = join(import.meta.dirname, "..", "..", "deploy");
const read = (...path: string[]) => readFileSync(join(deploy, ...path), "utf8");
const page = (name: string) => read("..", "docs", name);

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
    command: [binary],
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
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

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas: number;
    readonly maxUnavailable: number;
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string>; readonly annotations?: object };
      readonly spec: {
        readonly enableServiceLinks?: boolean;
        readonly containers: readonly Container[];
        readonly securityContext: { readonly runAsNonRoot: boolean };
        readonly affinity?: Record<string, unknown>;
      };
    };
  };
}

interface Container {
  readonly env: readonly {
    readonly name: string;
    readonly valueFrom?: { readonly secretKeyRef?: { readonly key: string }; readonly fieldRef?: object };
  }[];
  readonly ports: readonly { readonly name: string }[];
  readonly securityContext: Record<string, unknown>;
  readonly [probe: string]: unknown;
}

test.each(["kubernetes.yaml", "kubernetes-single.yaml"])(
  "%s asks the paths that the service has, and runs it without root",
  (file) => {
    const { template } = (Bun.YAML.parse(read(file)) as Manifest[]).at(-1)!.spec;
    const { containers, securityContext } = template.spec;
    const [container] = containers;
    const probes = ["startupProbe", "readinessProbe", "livenessProbe"].map(
      (name) => (container?.[name] as { httpGet?: { path: string } } | undefined)?.httpGet?.path,
    );
    expect(probes).toEqual(["/readyz", "/readyz", "/healthz"]);
    expect(securityContext.runAsNonRoot).toBe(true);
    expect(container?.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  },
);

/** https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables, without the names of each port. */
const injected = (service: string) =>
  ["PORT", "SERVICE_HOST", "SERVICE_PORT"].map(
    (name) => `${service.toUpperCase().replaceAll("-", "_")}_${name}`,
  );

test.each(["kubernetes.yaml", "kubernetes-single.yaml"])(
  "no Service of %s sets a variable in the pods that millrace reads as a setting",
  (file) => {
    const manifests = Bun.YAML.parse(read(file)) as Manifest[];
    const { enableServiceLinks = true, containers } = manifests.at(-1)!.spec.template.spec;
    const services = manifests.filter(({ kind }) => kind === "Service").map(({ metadata }) => metadata.name);
    const own = new Set(containers.flatMap(({ env }) => env.map(({ name }) => name)));
    const settings = settingTable.flatMap((group) => group.settings.map(({ variable }) => variable));
    const linked = (enableServiceLinks ? services.flatMap(injected) : []).filter((name) => !own.has(name));
    expect(services).toEqual(["millrace"]);
    expect(settings.filter((name) => linked.includes(name))).toEqual([]);
  },
);

interface Scrape {
  readonly job_name: string;
  readonly authorization: object;
  readonly relabel_configs: readonly {
    readonly source_labels: readonly string[];
    readonly regex: string;
    readonly action: string;
  }[];
}

test.each(["kubernetes.yaml", "kubernetes-single.yaml"])(
  "the pods of %s are scraped with the read token, as the documentation says, and not without one",
  (file) => {
    const { metadata, spec } = (Bun.YAML.parse(read(file)) as Manifest[]).at(-1)!.spec.template;
    const { env = [], ports = [] } = spec.containers[0] ?? {};
    const names = env.map(({ name }) => name);
    expect(names).toContain("MILLRACE_API_TOKEN");
    // A job that follows annotations has no token.
    expect(metadata.annotations).toBeUndefined();
    expect(names).toContain("MILLRACE_READ_TOKEN");
    const [, piece = ""] = /```yaml\n(scrape_configs:\n[^`]*)```/.exec(page("alerts-and-metrics.md")) ?? [];
    const [job] = (Bun.YAML.parse(piece) as { scrape_configs: Scrape[] }).scrape_configs;
    expect(job?.authorization).toHaveProperty("credentials_file");
    expect(read("prometheus-rules.yml")).toContain(`absent(up{job="${job?.job_name}"})`);
    const labels = new Map(
      Object.entries(metadata.labels).map(([name, value]) => [
        `__meta_kubernetes_pod_label_${name.replaceAll(/[^a-z0-9]/g, "_")}`,
        value,
      ]),
    );
    labels.set("__meta_kubernetes_pod_container_port_name", ports[0]?.name ?? "");
    const kept = job?.relabel_configs.map(({ source_labels, regex, action }) => [
      ...[action, source_labels.map((name) => labels.get(name)).join(";"), regex],
    ]);
    expect(kept).toEqual([["keep", "millrace;http", "millrace;http"]]);
  },
);

test.each(["kubernetes.yaml", "kubernetes-single.yaml"])(
  "%s says how to make the secret that it asks for",
  (file) => {
    const { env = [] } = (Bun.YAML.parse(read(file)) as Manifest[]).at(-1)!.spec.template.spec.containers[0]!;
    const asked = env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef?.key ?? []).toSorted();
    const made = (text: string) =>
      [...text.matchAll(/--from-literal=([a-z-]+)=/g)].map(([, key]) => key).toSorted();
    expect(made(read(file))).toEqual(asked);
    if (file === "kubernetes.yaml") expect(made(page("install-and-run.md"))).toEqual(asked);
  },
);

test("three replicas share a state and a key, apart from each other; with a volume there is one", () => {
  const [service, budget, deployment] = Bun.YAML.parse(read("kubernetes.yaml")) as Manifest[];
  expect([service?.kind, budget?.kind, deployment?.kind]).toEqual([
    ...["Service", "PodDisruptionBudget", "Deployment"],
  ]);
  expect([budget?.spec.maxUnavailable, deployment?.spec.replicas]).toEqual([1, 3]);
  expect(deployment?.spec.template.spec.affinity).toHaveProperty("podAntiAffinity");
  const { env = [] } = deployment?.spec.template.spec.containers[0] ?? {};
  const from = new Map(env.map(({ name, valueFrom }) => [name, valueFrom]));
  expect(from.get("MILLRACE_REPLICA_ID")).toEqual({ fieldRef: { fieldPath: "metadata.name" } });
  for (const name of ["DATABASE_URL", "MILLRACE_ENCRYPTION_KEY", "MILLRACE_API_TOKEN"])
    expect(from.get(name)).toHaveProperty("secretKeyRef");
  const single = (Bun.YAML.parse(read("kubernetes-single.yaml")) as Manifest[]).at(-1);
  expect([single?.kind, single?.spec.replicas]).toEqual(["StatefulSet", 1]);
});

test("the replicas of the compose file share a state and a key, under names of their own", () => {
  const { millrace, "millrace-2": second } = (Bun.YAML.parse(read("compose.replicas.yaml")) as Composed)
    .services;
  const [a = {}, b = {}] = [millrace?.environment, second?.environment];
  expect({ ...a, MILLRACE_REPLICA_ID: "" }).toEqual({ ...b, MILLRACE_REPLICA_ID: "" });
  expect(a.MILLRACE_REPLICA_ID).not.toBe(b.MILLRACE_REPLICA_ID);
  expect(second).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
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
