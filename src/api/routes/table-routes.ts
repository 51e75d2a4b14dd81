// Shows where the tables of a connector stand.

import { Elysia } from "elysia";
import { ConnectorPath, knownConnectorId } from "../guards/path-ids.ts";
import { NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { ConnectorService } from "../services.ts";

const detail = {
  operationId: "listTables",
  tags: ["Connectors"],
  summary: "Where a connector's tables stand",
  description:
    "Each table at the source, also those that the connector does not take, with the reason. By schema and name. As the run reported it, at most " +
    "a second ago; while nothing runs, as it stood last. Empty until a run has read the source's catalog since the replica that holds the connector took it.",
};

export function tableRoutes(connectors: ConnectorService) {
  return new Elysia({ name: "table-routes", prefix: "/api/v1", normalize: false }).get(
    "/connectors/:connector_id/tables",
    async ({ params }) => ({ tables: [...(await connectors.tables(knownConnectorId(params.connector_id)))] }),
    {
      params: ConnectorPath,
      query: NoQuery,
      response: { 200: schemas.TableStatuses, ...problems(404) },
      detail,
    },
  );
}
