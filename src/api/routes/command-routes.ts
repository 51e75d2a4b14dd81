// Commands to a connector, and its history. The paths have `connector`, in the singular.

import { Elysia } from "elysia";
import { parseJson } from "../guards/json-body.ts";
import { ConnectorPath, knownConnectorId } from "../guards/path-ids.ts";
import { EmptyBody, NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { ConnectorService } from "../services.ts";

const tags = ["Runs"];

const details = {
  commandConnector: {
    operationId: "commandConnector",
    tags,
    summary: "Start, stop, restart, resume, begin anew or delete",
    description:
      "`Start` and `Restart` begin a new run. `Resume` goes on after a lost slot: it makes a new one, compares every table of a Postgres " +
      "sink with the source while the stream goes on, and mends what differs; 409 unless the last error says that the slot is lost, or the " +
      "source is behind the sink. `ReIntialize` (also `ReInitialize`) copies everything anew; 409 while the connector is disabled. `Delete` " +
      "stops the run, drops the slot and the publication that the service made, and removes the connector. " +
      "`ForceDelete` does not wait for the source; the log says what was left behind.",
  },
  getConnectorHistory: {
    operationId: "getConnectorHistory",
    tags,
    summary: "What happened to a connector, oldest first",
  },
};

export function commandRoutes(connectors: ConnectorService) {
  return new Elysia({ name: "command-routes", prefix: "/api/v1/connector", normalize: false })
    .post(
      "/command/:connector_id",
      async ({ params, body, set }) => {
        await connectors.command(knownConnectorId(params.connector_id), body.command);
        set.status = 202;
      },
      {
        parse: parseJson,
        params: ConnectorPath,
        query: NoQuery,
        body: schemas.CommandRequest,
        response: { 202: EmptyBody, ...problems(404, 409, 422) },
        detail: details.commandConnector,
      },
    )
    .get(
      "/history/:connector_id",
      async ({ params }) => [...(await connectors.history(knownConnectorId(params.connector_id)))],
      {
        params: ConnectorPath,
        query: NoQuery,
        response: { 200: schemas.History, ...problems(404) },
        detail: details.getConnectorHistory,
      },
    );
}
