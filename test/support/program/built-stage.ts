// The built program on a directory of its own, beside a server with the databases of a test.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { compiledBinary } from "./compiled-binary.ts";

export interface BuiltStageOptions {
  /** The first one is the source. */
  readonly databases: readonly string[];
  /** SQL that makes the source's tables. */
  readonly source: string;
  /** Of the service. */
  readonly environment?: (server: PostgresServer) => Readonly<Record<string, string>>;
}

export interface BuiltStage {
  /** The program. */
  readonly command: string;
  readonly server: PostgresServer;
  readonly service: ServiceProcess;
  readonly api: ApiClient;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function builtStage({
  databases,
  source,
  environment = () => ({}),
}: BuiltStageOptions): Promise<BuiltStage> {
  await using building = new AsyncDisposableStack();
  const [command, server] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings: { fsync: "off" } }),
  ]);
  building.use(server);
  for (const database of databases) await server.createDatabase(database);
  await server.query(source, databases[0]);
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-built-"));
  building.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const start = { command: [command], dataDirectory, environment: environment(server) };
  const service = building.use(await ServiceProcess.start(start));
  const built = building.move();
  const api = new ApiClient(service.url);
  return { command, server, service, api, [Symbol.asyncDispose]: () => built.disposeAsync() };
}

/** The service keeps its state in this database. */
export function stateIn(server: PostgresServer, database: string): Readonly<Record<string, string>> {
  const { user, password, host, port } = server.connection(database);
  return { DATABASE_URL: `postgres://${user}:${password}@${host}:${port}/${database}` };
}
