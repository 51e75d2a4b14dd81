// Creates and replaces connectors, and previews what would be stored.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { checkConnectorRequest } from "../../connector/request/check-request.ts";
import { strictObject } from "../../connector/request/schema-forms.ts";
import { redactConnector } from "../../connector/secrets.ts";
import { parseJson } from "../guards/json-body.ts";
import { ConnectorPath, chosenConnectorId, optionalConnectorId } from "../guards/path-ids.ts";
import { ConnectorIdQuery, NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { ConnectorService } from "../services.ts";
import { ConditionHeaders, preconditionOf } from "./conditional-requests.ts";
import { shownConnector } from "./shown-connector.ts";

const tags = ["Connectors"];

const CloneQuery = strictObject({
  clone_from: Type.Optional(
    Type.String({ minLength: 1, description: "Secrets that the body leaves out come from this connector." }),
  ),
});

const details = {
  createConnector: {
    operationId: "createConnector",
    tags,
    summary: "Create a connector with a generated id",
    description:
      '`id` must be present and is ignored; `""` will do. The connector starts unless it is `disabled`.',
  },
  createOrReplaceConnector: {
    operationId: "createOrReplaceConnector",
    tags,
    summary: "Create or replace a connector",
    description:
      "The id of the path wins over the body's, which may be left out although the schema has it. " +
      'On replace, a secret that is `"***"` is kept, and so is a required one ' +
      "that is left out; an optional one that is left out is cleared. A connector that runs goes on with the new " +
      "configuration. `If-None-Match: *` creates alone, `If-Match` replaces only what you have seen: 412 otherwise.",
  },
  debugConnector: {
    operationId: "debugConnector",
    tags: ["Inspection"],
    summary: "Show a configuration with every default",
    description: "Nothing is stored, and nothing is created at the source or the sink.",
  },
};

/** Before the body is checked: the path has said the id. */
function takePathId(body: unknown, id: string): void {
  if (typeof body !== "object" || body === null || Array.isArray(body) || "id" in body) return;
  Object.assign(body, { id });
}

export function connectorCreationRoutes(connectors: ConnectorService) {
  const isStored = (id: string) =>
    connectors.get(id).then(
      () => true,
      () => false,
    );
  return new Elysia({ name: "connector-creation-routes", prefix: "/api/v1", normalize: false })
    .post(
      "/connectors",
      async ({ body, status, set }) => {
        const created = await connectors.create(body);
        set.headers.location = `/api/v1/connectors/${created.connector.id}`;
        return status(201, shownConnector(created));
      },
      {
        parse: parseJson,
        transform: ({ body }) => checkConnectorRequest(body, false),
        query: NoQuery,
        body: schemas.ConnectorRequest,
        response: { 201: schemas.ConnectorWithStatus, ...problems(409, 422) },
        detail: details.createConnector,
      },
    )
    .post(
      "/connectors/:connector_id",
      async ({ params, query, headers, body, set }) => {
        const id = chosenConnectorId(params.connector_id);
        const cloneFrom = optionalConnectorId(query.clone_from);
        const outcome = await connectors.createOrReplace(id, body, cloneFrom, preconditionOf(headers));
        set.status = outcome === "created" ? 201 : 200;
      },
      {
        parse: parseJson,
        transform: async ({ body, params, query }) => {
          takePathId(body, params.connector_id);
          const mayBeFilled = query.clone_from !== undefined || (await isStored(params.connector_id));
          checkConnectorRequest(body, mayBeFilled);
        },
        params: ConnectorPath,
        query: CloneQuery,
        headers: ConditionHeaders,
        body: schemas.ConnectorRequest,
        response: {
          200: Type.Undefined({ description: "Replaced. No content." }),
          201: Type.Undefined({ description: "Created. No content." }),
          ...problems(404, 409, 412, 422),
        },
        detail: details.createOrReplaceConnector,
      },
    )
    .post(
      "/debug/connector",
      async ({ body, query }) =>
        redactConnector(await connectors.preview(body, optionalConnectorId(query.connector_id))),
      {
        parse: parseJson,
        transform: ({ body, query }) => checkConnectorRequest(body, query.connector_id !== undefined),
        query: ConnectorIdQuery,
        body: schemas.ConnectorRequest,
        response: { 200: schemas.Connector, ...problems(404, 422) },
        detail: details.debugConnector,
      },
    );
}
