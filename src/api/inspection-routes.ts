// Looking at sources, sinks and configurations without storing anything. Connecting to them is the service's.

import { Elysia } from "elysia";
import { checkConnectorRequest, checkSinkBody, checkSourceBody } from "../connector/check-request.ts";
import { redactConnector } from "../connector/secrets.ts";
import { parseJson } from "./json-body.ts";
import { ConnectorIdQuery, schemas } from "./named-schemas.ts";
import { optionalConnectorId } from "./path-ids.ts";
import type { ConnectorService, InspectionService } from "./services.ts";

const tags = ["Inspection"];

export function inspectionRoutes(inspection: InspectionService, connectors: ConnectorService) {
  return new Elysia({ name: "inspection-routes", prefix: "/api/v1", normalize: false })
    .post(
      "/catalog/source",
      async ({ body, query, request }) =>
        inspection.sourceCatalog(body.source, optionalConnectorId(query.connector_id), request.signal),
      {
        parse: parseJson,
        transform: ({ body }) => checkSourceBody(body),
        query: ConnectorIdQuery,
        body: schemas.SourceBody,
        response: {
          200: schemas.Catalog,
          404: schemas.Problem,
          422: schemas.Problem,
          502: schemas.Problem,
          504: schemas.Problem,
        },
        detail: {
          operationId: "getSourceCatalog",
          tags,
          summary: "Read the schemas, tables and columns of a source",
          description: "Edited, it can be sent back as a connector's `catalog`.",
        },
      },
    )
    .post(
      "/validate/source",
      async ({ body, query, request }) => [
        ...(await inspection.validateSource(
          body.source,
          optionalConnectorId(query.connector_id),
          request.signal,
        )),
      ],
      {
        parse: parseJson,
        transform: ({ body }) => checkSourceBody(body),
        query: ConnectorIdQuery,
        body: schemas.SourceBody,
        response: { 200: schemas.ValidateEvents, 404: schemas.Problem, 422: schemas.Problem },
        detail: {
          operationId: "validateSource",
          tags,
          summary: "Check a source",
          description:
            "Connection, authentication, privileges and settings. A failed check is an event, not an error.",
        },
      },
    )
    .post(
      "/validate/sink",
      async ({ body, query, request }) => [
        ...(await inspection.validateSink(
          body.sink,
          optionalConnectorId(query.connector_id),
          request.signal,
        )),
      ],
      {
        parse: parseJson,
        transform: ({ body }) => checkSinkBody(body),
        query: ConnectorIdQuery,
        body: schemas.SinkBody,
        response: { 200: schemas.ValidateEvents, 404: schemas.Problem, 422: schemas.Problem },
        detail: {
          operationId: "validateSink",
          tags,
          summary: "Check a sink",
          description:
            "Connection, authentication, privileges and settings. A failed check is an event, not an error.",
        },
      },
    )
    .post(
      "/debug/connector",
      async ({ body, query }) =>
        redactConnector(await connectors.preview(body, optionalConnectorId(query.connector_id))),
      {
        parse: parseJson,
        transform: ({ body }) => checkConnectorRequest(body),
        query: ConnectorIdQuery,
        body: schemas.ConnectorRequest,
        response: { 200: schemas.Connector, 404: schemas.Problem, 422: schemas.Problem },
        detail: {
          operationId: "debugConnector",
          tags,
          summary: "Show a configuration with every default",
          description: "Nothing is stored, and nothing is created at the source or the sink.",
        },
      },
    );
}
