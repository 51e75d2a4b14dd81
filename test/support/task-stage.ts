// The built program with one connector, `shop`, between two databases of one server: for tests of its tasks, over the API.

import { expect } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Task, TaskRequest } from "../../src/connector/task.ts";
import { ApiClient, type JsonBody } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "./compiled-binary.ts";
import { PostgresServer } from "./postgres-server.ts";
import { waitFor } from "./wait-for.ts";

export interface TaskStageOptions {
  /** SQL that makes the source's tables, in the database `shop`. The sink is the database `copy`. */
  readonly source: string;
  readonly catalog?: JsonBody;
  /** How long a task, or the first copy, is waited for. */
  readonly timeoutMs?: number;
}

export class TaskStage implements AsyncDisposable {
  readonly path = "/api/v1/connectors/shop/tasks";
  readonly api: ApiClient;

  private constructor(
    /** The program. */
    readonly command: string,
    readonly server: PostgresServer,
    readonly service: ServiceProcess,
    private readonly timeoutMs: number,
    private readonly stack: AsyncDisposableStack,
  ) {
    this.api = new ApiClient(service.url);
  }

  /** Returns when the connector streams. */
  static async start({ source, catalog, timeoutMs = 60_000 }: TaskStageOptions): Promise<TaskStage> {
    await using stack = new AsyncDisposableStack();
    const [command, server] = await Promise.all([
      compiledBinary(),
      PostgresServer.start({ settings: { fsync: "off" } }),
    ]);
    stack.use(server);
    for (const name of ["shop", "copy"]) await server.createDatabase(name);
    await server.query(source, "shop");
    const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-tasks-"));
    stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
    const service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory }));
    const stage = new TaskStage(command, server, service, timeoutMs, stack.move());
    try {
      await stage.#connect(catalog);
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  async create(request: TaskRequest): Promise<Task> {
    const response = await this.api.request("POST", this.path, request);
    expect(response.status).toBe(202);
    return (await response.json()) as Task;
  }

  read(id: string): Promise<Task> {
    return this.api.call<Task>("GET", `${this.path}/${id}`);
  }

  async until(id: string, isThere: (task: Task) => boolean): Promise<Task> {
    let task: Task | null = null;
    const look = async () => {
      task = await this.read(id);
      return isThere(task) && task;
    };
    return await waitFor(`task ${id}`, look, { timeoutMs: this.timeoutMs }).catch((cause: unknown) => {
      throw new Error(`it is ${JSON.stringify(task)}`, { cause });
    });
  }

  untilIn(id: string, state: Task["state"]): Promise<Task> {
    return this.until(id, (task) => task.state === state);
  }

  /** Returns when the task is done. Throws its reason if it has failed. */
  async done(id: string): Promise<Task> {
    const task = await this.until(id, ({ state }) => state === "Done" || state === "Failed");
    if (task.state === "Failed") throw new Error(task.reason);
    return task;
  }

  /** By kill -9. */
  async restart(): Promise<void> {
    await this.service.kill();
    await this.service.launch();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stack.disposeAsync();
  }

  async #connect(catalog: JsonBody | undefined): Promise<void> {
    const connection = this.server.connection("shop");
    const replication = { replication_type: { logical_replication: {} } };
    await this.api.createConnector("shop", {
      source: { postgres: { connection, ...replication, ...(catalog ? { catalog } : {}) } },
      sink: { postgres: { connection: this.server.connection("copy") } },
    });
    const isStreaming = async () => (await this.api.connector("shop")).status.state.realtime;
    await waitFor("the stream", isStreaming, { timeoutMs: this.timeoutMs });
  }
}
