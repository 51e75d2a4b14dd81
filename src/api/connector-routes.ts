// Connectors over HTTP: create, replace, read, change, remove. What happens to them is the service's.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { checkConnectorRequest } from "../connector/check-request.ts";
import type { ConnectorWithStatus } from "../connector/connector.ts";
import { strictObject } from "../connector/schema-forms.ts";
import { redactConnector } from "../connector/secrets.ts";
import { parseJson, parseMergePatch } from "./json-body.ts";
import { EmptyBody, NoQuery, schemas } from "./named-schemas.ts";
import { ConnectorPath, chosenConnectorId, knownConnectorId, optionalConnectorId } from "./path-ids.ts";
import type { ConnectorService } from "./services.ts";

const tags = ["Connectors"];

export function connectorRoutes(connectors: ConnectorService) {
  return new Elysia({ name: "connector-routes", prefix: "/api/v1", normalize: false })
    .post(
      "/connectors",
      async ({ body, status, set }) => {
        const created = await connectors.create(body);
        set.headers.location = `/api/v1/connectors/${created.connector.id}`;
        return status(201, shown(created));
      },
      {
        parse: parseJson,
        transform: ({ body }) => checkConnectorRequest(body),
        query: NoQuery,
        body: schemas.ConnectorRequest,
        response: { 201: schemas.ConnectorWithStatus, 409: schemas.Problem, 422: schemas.Problem },
        detail: {
          operationId: "createConnector",
          tags,
          summary: "Create a connector with a generated id",
          description:
            '`id` must be present and is ignored; `""` will do. The connector starts unless it is `disabled`.',
        },
      },
    )
    .post(
      "/connectors/:connector_id",
      async ({ params, query, body, set }) => {
        const id = chosenConnectorId(params.connector_id);
        const cloneFrom = optionalConnectorId(query.clone_from);
        const outcome = await connectors.createOrReplace(id, body, cloneFrom);
        set.status = outcome === "created" ? 201 : 200;
      },
      {
        parse: parseJson,
        transform: ({ body }) => checkConnectorRequest(body),
        params: ConnectorPath,
        query: strictObject({
          clone_from: Type.Optional(
            Type.String({
              minLength: 1,
              description: "Secrets that the body leaves out come from this connector.",
            }),
          ),
        }),
        body: schemas.ConnectorRequest,
        response: {
          200: Type.Undefined({ description: "Replaced. No content." }),
          201: Type.Undefined({ description: "Created. No content." }),
          404: schemas.Problem,
          409: schemas.Problem,
          422: schemas.Problem,
        },
        detail: {
          operationId: "createOrReplaceConnector",
          tags,
          summary: "Create or replace a connector",
          description:
            'The id of the path wins over the body\'s. On replace, a secret that is left out or `"***"` is kept, and an ' +
            "explicit `null` clears an optional one. A connector that runs goes on with the new configuration.",
        },
      },
    )
    .get("/connectors", async () => ({ connectors: (await connectors.list()).map(shown) }), {
      query: NoQuery,
      response: { 200: schemas.ConnectorList },
      detail: { operationId: "listConnectors", tags, summary: "List all connectors" },
    })
    .get(
      "/connectors/:connector_id",
      async ({ params }) => shown(await connectors.get(knownConnectorId(params.connector_id))),
      {
        params: ConnectorPath,
        query: NoQuery,
        response: { 200: schemas.ConnectorWithStatus, 404: schemas.Problem },
        detail: {
          operationId: "getConnector",
          tags,
          summary: "Get a connector and its status",
          description: 'Secrets read `"***"`.',
        },
      },
    )
    .patch(
      "/connectors/:connector_id",
      async ({ params, body }) => {
        const id = knownConnectorId(params.connector_id);
        return shown(await connectors.patch(id, body));
      },
      {
        parse: parseMergePatch,
        params: ConnectorPath,
        query: NoQuery,
        body: schemas.ConnectorPatch,
        response: {
          200: schemas.ConnectorWithStatus,
          404: schemas.Problem,
          409: schemas.Problem,
          422: schemas.Problem,
        },
        detail: {
          operationId: "patchConnector",
          tags,
          summary: "Change a connector by a merge patch",
          description:
            "RFC 7396: members of the patch replace those of the connector, `null` removes them. The kinds of source, sink " +
            "and replication, `host`, `port`, `database` and a webhook's `url` cannot change: 409. To change the kind " +
            "of another union, set the old kind to `null`.",
        },
      },
    )
    .delete(
      "/connectors/:connector_id",
      async ({ params, set }) => {
        await connectors.command(knownConnectorId(params.connector_id), "Delete");
        set.status = 204;
      },
      {
        params: ConnectorPath,
        query: NoQuery,
        response: { 204: EmptyBody, 404: schemas.Problem },
        detail: {
          operationId: "deleteConnector",
          tags,
          summary: "Delete a connector",
          description: "The same as the command `Delete`.",
        },
      },
    );
}

/** As responses show it: no secret leaves the service. */
function shown(stored: ConnectorWithStatus): ConnectorWithStatus {
  return { ...stored, connector: redactConnector(stored.connector) };
}
