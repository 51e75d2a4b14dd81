// Lists, creates, cancels and retries a connector's tasks.

import { Elysia } from "elysia";
import { parseJson } from "../guards/json-body.ts";
import { ConnectorPath, knownConnectorId, knownTaskId, TaskPath } from "../guards/path-ids.ts";
import { NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { TaskService } from "../services.ts";

const tags = ["Tasks"];

const details = {
  listTasks: {
    operationId: "listTasks",
    tags,
    summary: "List a connector's tasks, newest first",
    description: "The most recent 100.",
  },
  createTask: {
    operationId: "createTask",
    tags,
    summary: "Create a task",
    description:
      "`Snapshot` copies one table as of a single point in time, beside the stream of changes. `Verify` compares one " +
      "table with its source. `Replay` sends rows to a webhook or Kafka again. When an identical " +
      "task is pending or running, that one is returned.",
  },
  getTask: { operationId: "getTask", tags, summary: "Get a task" },
  cancelTask: {
    operationId: "cancelTask",
    tags,
    summary: "Cancel a task",
    description:
      "A task that is pending, or a comparison (`Verify`) that runs: rows that it has repaired stay repaired. A cancelled task is returned as it is. " +
      "A copy or a replay that runs, or a task that is done or failed: 409.",
  },
  retryTask: {
    operationId: "retryTask",
    tags,
    summary: "Retry a task now",
    description: "A pending task becomes eligible now; a failed one becomes pending again. Else: 409.",
  },
};

export function taskRoutes(tasks: TaskService) {
  return new Elysia({
    name: "task-routes",
    prefix: "/api/v1/connectors/:connector_id/tasks",
    normalize: false,
  })
    .get("", async ({ params }) => [...(await tasks.list(knownConnectorId(params.connector_id)))], {
      params: ConnectorPath,
      query: NoQuery,
      response: { 200: schemas.TaskList, ...problems(404) },
      detail: details.listTasks,
    })
    .post(
      "",
      async ({ params, body, status }) =>
        status(202, await tasks.create(knownConnectorId(params.connector_id), body)),
      {
        parse: parseJson,
        params: ConnectorPath,
        query: NoQuery,
        body: schemas.TaskRequest,
        response: { 202: schemas.Task, ...problems(404, 409, 422) },
        detail: details.createTask,
      },
    )
    .get(
      "/:task_id",
      async ({ params }) => tasks.get(knownConnectorId(params.connector_id), knownTaskId(params.task_id)),
      {
        params: TaskPath,
        query: NoQuery,
        response: { 200: schemas.Task, ...problems(404) },
        detail: details.getTask,
      },
    )
    .post(
      "/:task_id/cancel",
      async ({ params }) => tasks.cancel(knownConnectorId(params.connector_id), knownTaskId(params.task_id)),
      {
        params: TaskPath,
        query: NoQuery,
        response: { 200: schemas.Task, ...problems(404, 409) },
        detail: details.cancelTask,
      },
    )
    .post(
      "/:task_id/retry",
      async ({ params }) => tasks.retry(knownConnectorId(params.connector_id), knownTaskId(params.task_id)),
      {
        params: TaskPath,
        query: NoQuery,
        response: { 200: schemas.Task, ...problems(404, 409) },
        detail: details.retryTask,
      },
    );
}
