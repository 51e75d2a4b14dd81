// The project's shape: who may import whom, and how files are named and kept small. ARCHITECTURE.md tells the reasons.

import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const folders = ["src", "console", "test", "bench", "scripts"];
const files = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => /\.tsx?$/.test(path)),
);
const texts = new Map(files.map((path) => [path, readFileSync(join(root, path), "utf8")]));

/** A project file as its path from the root, a package by its name. */
const imported = (path: string, name: string) =>
  name.startsWith(".") ? relative(root, resolve(root, dirname(path), name)) : name;

/** What a file imports, also types only. */
function importsOf(path: string): readonly string[] {
  const text = texts.get(path) ?? "";
  const found = text.matchAll(
    /(?:^|\n)\s*(?:import|export)\s[^"';]*?from\s+"([^"]+)"|import\(\s*"([^"]+)"|(?:^|\n)import\s+"([^"]+)"/g,
  );
  return [...found].map((match) => imported(path, match[1] ?? match[2] ?? match[3] ?? ""));
}

/** What is loaded with a file at once, and not for its types. */
function staticValuesOf(path: string): readonly string[] {
  const text = texts.get(path) ?? "";
  const found = text.matchAll(/^(?:import|export)\s(?!type\s)(?:[^"';]*?from\s+)?"([^"]+)"/gm);
  return [...found].map((match) => imported(path, match[1] ?? ""));
}

const inFolder = (path: string, ...names: string[]) => names.some((name) => path.startsWith(`src/${name}/`));
const sourceFiles = files.filter((path) => path.startsWith("src/"));
const consoleFiles = files.filter((path) => path.startsWith("console/"));

/** Imports of `folder`'s files that are neither its own nor allowed, as "file → import". Everyone may wait: `concurrency` is allowed to all. */
function strays(folder: string, allowed: readonly string[]): string[] {
  return sourceFiles
    .filter((path) => inFolder(path, folder))
    .flatMap((path) =>
      importsOf(path)
        .filter((name) => name.startsWith("src/") && !inFolder(name, folder, "concurrency"))
        .filter((name) => !allowed.some((prefix) => name === prefix || name.startsWith(`${prefix}/`)))
        .map((name) => `${path} → ${name}`),
    );
}

function importers(name: RegExp): string[] {
  return sourceFiles.filter((path) => importsOf(path).some((imported) => name.test(imported)));
}

/** Everything that is loaded with a file. */
function reachable(start: string, follow = importsOf): Set<string> {
  const seen = new Set<string>();
  const open = [start];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    open.push(...follow(path).filter((name) => texts.has(name)));
  }
  return seen;
}

const sourceContract = ["source", "table-source", "verify-source", "key-source", "change-stream"].map(
  (name) => `src/source/${name}.ts`,
);
const sinkContract = [
  "sink",
  "copy-sink",
  "copy-invalidated",
  "verify-sink",
  "replay-sink",
  "sink-events",
].map((name) => `src/sink/${name}.ts`);

describe("who may import whom", () => {
  const allowed: Readonly<Record<string, readonly string[]>> = {
    errors: [],
    memory: [],
    concurrency: [],
    change: ["src/errors", "src/memory"],
    connector: ["src/errors"],
    comparison: ["src/change", "src/memory"],
    connection: ["src/connector", "src/errors", "src/memory"],
    source: [
      "src/change",
      "src/memory",
      "src/comparison",
      "src/connection",
      "src/connector",
      "src/errors",
      "src/measure/shared-interval.ts",
    ],
    sink: ["src/change", "src/comparison", "src/connection", "src/connector", "src/errors", "src/memory"],
    // Rows as messages: no I/O. What the delivery of messages needs is the same for each transport.
    "sink/format": ["src/change", "src/connector", "src/errors", "src/memory"],
    "sink/delivery": [
      "src/change",
      "src/memory",
      "src/connection",
      "src/connector",
      "src/errors",
      "src/sink/format",
      ...sinkContract,
    ],
    // The HTTP client of all that sends to addresses that users name.
    "sink/http": ["src/change", "src/connection/egress.ts", "src/errors", "src/sink/format"],
    "sink/webhook": [
      ...["src/change", "src/connection", "src/connector", "src/errors", "src/memory"],
      ...["src/sink/http", "src/sink/format", "src/sink/delivery", ...sinkContract],
    ],
    "sink/kafka": [
      ...["src/change", "src/connection", "src/connector", "src/errors", "src/memory"],
      ...["src/sink/http", "src/sink/format", "src/sink/delivery", ...sinkContract],
    ],
    "sink/postgres": [
      "src/change",
      "src/memory",
      "src/comparison",
      "src/connection",
      "src/connector",
      "src/errors",
      ...sinkContract,
    ],
    measure: [],
    // The task is what a snapshot task asks for: a table's name and what to do with the rows that are there.
    pipeline: [
      ...["src/change", "src/comparison", "src/measure", "src/memory", "src/errors"],
      ...["src/connector/task.ts", "src/connector/task-table.ts"],
      ...["src/connector/verification.ts", "src/connector/replay.ts"],
      ...[...sourceContract, ...sinkContract],
    ],
    api: ["src/connector", "src/errors"],
    // What is embedded leaves garbage in the main thread.
    state: ["src/connector", "src/errors", "src/memory"],
    // A file of connectors is read as strictly as a body.
    cli: [
      "src/connector",
      "src/errors",
      "src/api/guards/json-scan.ts",
      "src/doctor/disk-space.ts",
      "src/loopback.ts",
      "src/memory/read-bounded.ts",
    ],
    alerts: [
      ...["src/connector", "src/errors", "src/log.ts", "src/measure/shared-interval.ts"],
      ...[
        "src/sink/http",
        "src/sink/webhook",
        "src/sink/delivery/order",
        "src/sink/format/idempotency-key.ts",
      ],
      "src/connection/egress.ts",
    ],
    doctor: ["src/connector", "src/errors", "src/api/services.ts"],
  };

  test.each(Object.keys(allowed))("%s", (folder) => {
    expect(strays(folder, allowed[folder] ?? [])).toEqual([]);
  });

  test("a worker never loads the state: the main thread owns it", () => {
    for (const worker of ["src/replication.worker.ts", "src/delivery.worker.ts"]) {
      expect([...reachable(worker)].filter((path) => inFolder(path, "state", "api"))).toEqual([]);
    }
  });

  test("a thread loads no kind of sink before a connector has it", () => {
    // The line from a connector to its sender, and how much is on it, belong to the connector's thread.
    const shared = /^src\/sink\/(?!kafka\/|postgres\/|webhook\/(?!stream-size))/;
    const loaded = [...reachable("src/replication.worker.ts", staticValuesOf)];
    expect(loaded.filter((path) => inFolder(path, "sink") && !shared.test(path))).toEqual([]);
  });

  test("a thread loads no kind of source before a connector has it", () => {
    for (const start of ["src/serve.ts", "src/replication.worker.ts"]) {
      const loaded = [...reachable(start, staticValuesOf)];
      expect(loaded.filter((path) => inFolder(path, "source/postgres"))).toEqual([]);
    }
  });

  test("a worker loads no schemas: what it gets is checked", () => {
    const isSchemas = (name: string) => name.startsWith("@sinclair/typebox");
    const workers = ["src/replication.worker.ts", "src/delivery.worker.ts"];
    const sources = ["src/source/postgres/postgres-source.ts", "src/source/postgres/postgres-copy-source.ts"];
    const kinds = [...sources, "src/sink/postgres/create-postgres-sink.ts"];
    const loaded = [...workers, ...kinds].flatMap((start) => [...reachable(start, staticValuesOf)]);
    expect(loaded.filter((path) => staticValuesOf(path).some(isSchemas))).toEqual([]);
  });

  test("nothing but the demo's command loads the demo", () => {
    const loaders = sourceFiles.filter(
      (path) => !inFolder(path, "demo") && importsOf(path).some((n) => inFolder(n, "demo")),
    );
    expect(loaders).toEqual(["src/main.ts"]);
  });

  test("drizzle is the state's, Elysia the API's", () => {
    expect(importers(/^drizzle-orm/).filter((path) => !inFolder(path, "state"))).toEqual([]);
    expect(
      importers(/^(elysia|@elysiajs\/)/).filter((path) => !inFolder(path, "api") && path !== "src/app.ts"),
    ).toEqual([]);
  });

  test("nobody imports in a circle, types included", () => {
    const circles: string[] = [];
    const done = new Set<string>();
    const walk = (path: string, above: readonly string[]) => {
      if (above.includes(path)) circles.push([...above.slice(above.indexOf(path)), path].join(" → "));
      if (done.has(path) || above.includes(path)) return;
      for (const name of importsOf(path)) if (texts.has(name)) walk(name, [...above, path]);
      done.add(path);
    };
    for (const path of [...sourceFiles, ...consoleFiles]) walk(path, []);
    expect(circles).toEqual([]);
  });

  test("the console sees the service's types alone, and nothing of the service sees the console", () => {
    const values = consoleFiles.flatMap((path) =>
      staticValuesOf(path)
        .filter((name) => name.startsWith("src/"))
        .map((name) => `${path} → ${name}`),
    );
    expect(values).toEqual([]);
    expect(importers(/^console\//)).toEqual([]);
  });

  test("formats do no I/O", () => {
    const packages = sourceFiles
      .filter((path) => inFolder(path, "sink/format"))
      .flatMap((path) =>
        importsOf(path).filter((name) => !/^(src\/|package\.json$|node:buffer$)/.test(name)),
      );
    expect(packages).toEqual([]);
  });

  test("workers are found by one file", () => {
    const naming = sourceFiles.filter((path) => /new URL\([^)]*\.worker\.ts/.test(texts.get(path) ?? ""));
    expect(naming).toEqual(["src/worker-urls.ts"]);
  });
});

describe("files", () => {
  /** About 300, so that nobody has to split a file for the sake of a line. */
  const maxLines = 320;
  const maxContractLines = 130;
  const mostFiles = 22;
  const vague = /(^|-)(utils?|helpers?|types|common|misc|shared)\.tsx?$|^(index|base)\.tsx?$/;

  test("are named in kebab-case, for the one thing that they hold", () => {
    const name = (path: string) => path.split("/").at(-1) ?? "";
    expect(
      files.filter((path) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.(test|thorough|worker|d))?\.tsx?$/.test(name(path))),
    ).toEqual([]);
    expect(files.filter((path) => vague.test(name(path)))).toEqual([]);
  });

  test("are at most about 300 lines long", () => {
    const long = [...texts]
      .filter(([path]) => path.startsWith("src/") || path.startsWith("console/"))
      .map(([path, text]) => [path, text.trimEnd().split("\n").length] as const);
    expect(long.filter(([, lines]) => lines > maxLines)).toEqual([]);
  });

  test("list the members of an object: the spread of a literal hides some of them in a line", () => {
    const hiding = sourceFiles.filter((path) => /\.\.\.\{/.test(texts.get(path) ?? ""));
    // The driver's types leave out options that it has, and a spread is not held against them.
    expect(hiding).toEqual(["src/state/server/state-session.ts"]);
  });

  test("are about twenty in a folder at most", () => {
    const counts = Map.groupBy(files, (path) => dirname(path));
    const crowded = [...counts].filter(([, paths]) => paths.length > mostFiles);
    expect(crowded.map(([folder, paths]) => `${folder}: ${paths.length}`)).toEqual([]);
  });

  test("hold a contract on a screen and a half", () => {
    const lines = (path: string) => texts.get(path)?.trimEnd().split("\n").length ?? 0;
    const long = [...sourceContract, ...sinkContract].filter((path) => lines(path) > maxContractLines);
    expect(long).toEqual([]);
  });

  test("say at the top what they are for", () => {
    expect(sourceFiles.filter((path) => !texts.get(path)?.startsWith("//"))).toEqual([]);
  });

  test("leave nothing for later", () => {
    const marker = new RegExp(`\\b(TO${""}DO|FIX${""}ME|X${""}XX)\\b`);
    expect([...texts].filter(([, text]) => marker.test(text)).map(([path]) => path)).toEqual([]);
  });

  test("re-export nothing: a thing is imported from where it is made", () => {
    const barrels = sourceFiles.filter((path) => /^export\s+\*\s/m.test(texts.get(path) ?? ""));
    expect(barrels).toEqual([]);
  });
});
