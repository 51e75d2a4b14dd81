// Reads, changes and removes connectors. connector-creation-routes.ts creates them.

import { Elysia } from "elysia";
import { parseMergePatch } from "../guards/json-body.ts";
import { ConnectorPath, knownConnectorId } from "../guards/path-ids.ts";
import { EmptyBody, NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { ConnectorService } from "../services.ts";
import { ConditionHeaders, preconditionOf, tagHeaders } from "./conditional-requests.ts";
import { shownConnector } from "./shown-connector.ts";

const tags = ["Connectors"];

const details = {
  listConnectors: { operationId: "listConnectors", tags, summary: "List all connectors" },
  getConnector: {
    operationId: "getConnector",
    tags,
    summary: "Get a connector and its status",
    description:
      "As it was given, with the defaults of numbers, switches and words in the objects that were given; what was left " +
      'out stays absent, so it can be compared with what was sent. Secrets read `"***"`. The `ETag` is of the configuration alone, for ' +
      "`If-Match`: it stays while the status changes.",
  },
  patchConnector: {
    operationId: "patchConnector",
    tags,
    summary: "Change a connector by a merge patch",
    description:
      "RFC 7396, also as `application/json`: members of the patch replace those of the connector, `null` removes them. The kinds of source, sink " +
      "and replication, `host`, `port`, `database`, a webhook's `url`, and a Kafka sink's `brokers`, `name` and `transactional_id` cannot " +
      "change: 409. To change the kind of another union, set the old kind to `null`. With `If-Match` it changes only what you have seen: 412.",
  },
  deleteConnector: {
    operationId: "deleteConnector",
    tags,
    summary: "Delete a connector",
    description: "The same as the command `Delete`. With `If-Match` it deletes only what you have seen: 412.",
  },
};

export function connectorRoutes(connectors: ConnectorService) {
  return new Elysia({ name: "connector-routes", prefix: "/api/v1", normalize: false })
    .get("/connectors", async () => ({ connectors: (await connectors.list()).map(shownConnector) }), {
      query: NoQuery,
      response: { 200: schemas.ConnectorList },
      detail: details.listConnectors,
    })
    .get(
      "/connectors/:connector_id",
      async ({ params, set }) => {
        const shown = shownConnector(await connectors.get(knownConnectorId(params.connector_id)));
        Object.assign(set.headers, tagHeaders(shown));
        return shown;
      },
      {
        params: ConnectorPath,
        query: NoQuery,
        response: { 200: schemas.GivenConnector, ...problems(404) },
        detail: details.getConnector,
      },
    )
    .patch(
      "/connectors/:connector_id",
      async ({ params, headers, body, set }) => {
        const id = knownConnectorId(params.connector_id);
        const shown = shownConnector(await connectors.patch(id, body, preconditionOf(headers)));
        Object.assign(set.headers, tagHeaders(shown));
        return shown;
      },
      {
        parse: parseMergePatch,
        params: ConnectorPath,
        headers: ConditionHeaders,
        query: NoQuery,
        body: schemas.ConnectorPatch,
        response: {
          200: schemas.GivenConnector,
          ...problems(404, 409, 412, 422),
        },
        detail: details.patchConnector,
      },
    )
    .delete(
      "/connectors/:connector_id",
      async ({ params, headers, set }) => {
        const id = knownConnectorId(params.connector_id);
        await connectors.command(id, "Delete", preconditionOf(headers));
        set.status = 204;
      },
      {
        params: ConnectorPath,
        headers: ConditionHeaders,
        query: NoQuery,
        response: { 204: EmptyBody, ...problems(404, 412, 422) },
        detail: details.deleteConnector,
      },
    );
}
