// Answers the API's requests about tasks. The transitions are those of src/connector/task-state.ts, made inside the
// store's transaction.

import type { TaskService } from "../api/services.ts";
import { completeTaskSpec } from "../connector/request/complete-task-spec.ts";
import type { Task, TaskRequest } from "../connector/task.ts";
import { cancelTask, newTask, retryTask } from "../connector/task-state.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { State } from "../state/open-state.ts";
import { beingDeleted } from "./connector-service.ts";
import type { Supervisor } from "./supervisor.ts";

export interface TaskServiceContext {
  readonly state: State;
  readonly supervisor: Supervisor;
  readonly now: () => Date;
  readonly newTaskId: () => string;
}

export class StoredTaskService implements TaskService {
  constructor(private readonly context: TaskServiceContext) {}

  async list(connectorId: string): Promise<readonly Task[]> {
    await this.context.state.connectors.get(connectorId);
    return this.context.state.tasks.list(connectorId);
  }

  async get(connectorId: string, taskId: string): Promise<Task> {
    await this.context.state.connectors.get(connectorId);
    return found(await this.context.state.tasks.find(connectorId, taskId), taskId);
  }

  async create(connectorId: string, request: TaskRequest): Promise<Task> {
    const { config, deletion } = await this.context.state.connectors.get(connectorId);
    if (deletion) throw beingDeleted(connectorId);
    const spec = completeTaskSpec(request, config);
    const draft = newTask(this.context.newTaskId(), spec, this.context.now().getTime());
    return await this.#dispatchAfter(connectorId, this.context.state.tasks.create(connectorId, draft));
  }

  cancel(connectorId: string, taskId: string): Promise<Task> {
    return this.#change(connectorId, taskId, cancelTask);
  }

  retry(connectorId: string, taskId: string): Promise<Task> {
    return this.#change(connectorId, taskId, retryTask);
  }

  async #change(connectorId: string, taskId: string, decide: (task: Task) => Task): Promise<Task> {
    await this.context.state.connectors.get(connectorId);
    const changed = this.context.state.tasks.change(connectorId, taskId, decide);
    return found(await this.#dispatchAfter(connectorId, changed), taskId);
  }

  /** Dispatches even after an error: the change may be stored although its answer was lost. */
  async #dispatchAfter<Result>(connectorId: string, stored: Promise<Result>): Promise<Result> {
    try {
      return await stored;
    } finally {
      this.context.supervisor.dispatchTasks(connectorId);
    }
  }
}

function found(task: Task | null, taskId: string): Task {
  if (!task) throw new MillraceError("task_not_found", `There is no task ${taskId}.`);
  return task;
}
