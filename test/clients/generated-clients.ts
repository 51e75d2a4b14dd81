// Generators make clients of the OpenAPI document, and each client works on the running service: it creates, lists,
// reads, changes, validates and deletes a connector. The programs are the same in each language.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ownCommand, ServiceProcess } from "../../src/demo/service-process.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { requireTools, Toolbox, versions } from "./tools/toolbox.ts";

const programs = join(import.meta.dirname, "programs");
const documentFile = "openapi.json";

let toolbox: Toolbox;
let server: PostgresServer;
let service: ServiceProcess;

beforeAll(async () => {
  requireTools();
  toolbox = await Toolbox.create();
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await mkdir(toolbox.path("data"));
  service = await ServiceProcess.start({
    command: [process.execPath, join(import.meta.dirname, "..", "..", "src", "main.ts")],
    dataDirectory: toolbox.path("data"),
  });
  const answer = await fetch(`${service.url}/swagger/json`);
  await writeFile(toolbox.path(documentFile), await answer.text());
});

afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  await toolbox?.[Symbol.asyncDispose]();
});

/** A folder with the program for a generator's client. */
async function copyProgram(name: string): Promise<string> {
  await cp(join(programs, name), toolbox.path(name), { recursive: true });
  return name;
}

/** Runs the program, which prints what it saw. */
async function expectWorking(command: readonly string[], folder: string): Promise<void> {
  const output = await toolbox.run([...command, service.url, folder, String(server.port)], folder);
  expect(JSON.parse(output)).toEqual({
    created: 201,
    listed: true,
    host: "127.0.0.1",
    url: "http://127.0.0.1:9",
    token: "***",
    cron: "0 3 * * *",
    state: "disabled",
    health: "complete",
    name: "Renamed",
    test: "DnsResolution",
    deleted: 204,
    problem: "connector_not_found",
  });
}

function generate(generator: string, output: string, properties: string): Promise<string> {
  const options = ["--generator-name", generator, "--output", output, "--additional-properties", properties];
  return toolbox.run(["openapi-generator-cli", "generate", "--input-spec", documentFile, ...options]);
}

async function expectWorkingGo(folder: string): Promise<void> {
  await toolbox.run(["go", "mod", "tidy"], folder);
  await toolbox.run(["go", "vet", "./..."], folder);
  await expectWorking(["go", "run", "."], folder);
}

test(`oapi-codegen ${versions.oapiCodegen}: Go`, async () => {
  const folder = await copyProgram("oapi-codegen");
  const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen";
  await toolbox.run(["go", "install", `${generator}@v${versions.oapiCodegen}`]);
  await mkdir(toolbox.path(folder, "api"));
  const options = ["-package", "api", "-generate", "types,client", "-o", join(folder, "api", "api.gen.go")];
  await toolbox.run(["oapi-codegen", ...options, documentFile]);
  await toolbox.run(["go", "mod", "init", "client"], folder);
  const runtime = `github.com/oapi-codegen/runtime@v${versions.oapiCodegenRuntime}`;
  await toolbox.run(["go", "get", runtime], folder);
  await expectWorkingGo(folder);
});

test(`OpenAPI Generator ${versions.openapiGenerator}: Go`, async () => {
  const folder = await copyProgram("openapi-generator-go");
  await generate("go", join(folder, "api"), "packageName=api,withGoMod=false");
  // Its tests are stubs, which import a package of their own.
  await rm(toolbox.path(folder, "api", "test"), { recursive: true, force: true });
  await toolbox.run(["go", "mod", "init", "client"], folder);
  await expectWorkingGo(folder);
});

test(`OpenAPI Generator ${versions.openapiGenerator}: Python`, async () => {
  const folder = await copyProgram("openapi-generator-python");
  await generate("python", join(folder, "package"), "packageName=millrace_client");
  await toolbox.run(["python", "-m", "venv", "own"], folder);
  const python = toolbox.path(folder, "own", "bin", "python");
  await toolbox.run([python, "-m", "pip", "install", "--quiet", "./package"], folder);
  await toolbox.run([python, "-m", "compileall", "-q", "package"], folder);
  await expectWorking([python, "main.py"], folder);
});

test(`openapi-python-client ${versions.openapiPythonClient}: Python`, async () => {
  const folder = await copyProgram("openapi-python-client");
  const output = join(folder, "millrace_client");
  const options = ["--path", documentFile, "--output-path", output, "--meta", "none", "--fail-on-warning"];
  await toolbox.run(["openapi-python-client", "generate", ...options]);
  await toolbox.run(["python", "-m", "compileall", "-q", "millrace_client"], folder);
  // The generator's own environment has what its clients need.
  await expectWorking(["python", "main.py"], folder);
});

test(`openapi-typescript ${versions.openapiTypescript}: TypeScript`, async () => {
  const folder = await copyProgram("openapi-typescript");
  const dependencies = {
    "openapi-typescript": versions.openapiTypescript,
    "openapi-fetch": versions.openapiFetch,
    typescript: versions.typescript,
    "@types/node": "24.10.1",
  };
  await writeFile(toolbox.path(folder, "package.json"), JSON.stringify({ type: "module", dependencies }));
  const [bun = process.execPath] = ownCommand();
  await toolbox.run([bun, "install"], folder);
  const program = (name: string) => toolbox.path(folder, "node_modules", ".bin", name);
  await toolbox.run([program("openapi-typescript"), toolbox.path(documentFile), "-o", "api.d.ts"], folder);
  const options = "--noEmit --strict --exactOptionalPropertyTypes --allowImportingTsExtensions --types node";
  await toolbox.run(
    [program("tsc"), ...options.split(" "), "--target", "es2023", "--module", "nodenext", "main.ts"],
    folder,
  );
  await expectWorking([bun, "main.ts"], folder);
});
