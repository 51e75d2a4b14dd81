// The built program with one connector, `shop`, between two databases of one server: for tests of its tasks, over the API.

import { expect } from "bun:test";
import type { Task, TaskRequest } from "../../../src/connector/task.ts";
import type { ApiClient, JsonBody } from "../../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../../src/demo/service-process.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import { type BuiltStage, builtStage } from "./built-stage.ts";

export interface TaskStageOptions {
  /** SQL that makes the source's tables, in the database `shop`. The sink is the database `copy`. */
  readonly source: string;
  readonly catalog?: JsonBody;
  /** How long a task, or the first copy, is waited for. */
  readonly timeoutMs?: number;
}

export class TaskStage implements AsyncDisposable {
  readonly path = "/api/v1/connectors/shop/tasks";
  /** The program. */
  readonly command: string;
  readonly server: PostgresServer;
  readonly service: ServiceProcess;
  readonly api: ApiClient;

  private constructor(
    private readonly built: BuiltStage,
    private readonly timeoutMs: number,
  ) {
    ({ command: this.command, server: this.server, service: this.service, api: this.api } = built);
  }

  /** Returns when the connector streams. */
  static async start({ source, catalog, timeoutMs = 60_000 }: TaskStageOptions): Promise<TaskStage> {
    const stage = new TaskStage(await builtStage({ databases: ["shop", "copy"], source }), timeoutMs);
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
    return this.built[Symbol.asyncDispose]();
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
