// Inspects sources and sinks without storing anything.

import { Elysia } from "elysia";
import { checkBufferBody, checkSinkBody, checkSourceBody } from "../../connector/request/check-request.ts";
import { parseJson } from "../guards/json-body.ts";
import { optionalConnectorId } from "../guards/path-ids.ts";
import { ConnectorIdQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { InspectionService } from "../services.ts";

const tags = ["Inspection"];

const details = {
  getSourceCatalog: {
    operationId: "getSourceCatalog",
    tags,
    summary: "Read the schemas, tables and columns of a source",
    description: "Edited, it can be sent back as a connector's `catalog`.",
  },
  validateSource: {
    operationId: "validateSource",
    tags,
    summary: "Check a source",
    description:
      "Connection, authentication, privileges and settings. A failed check is an event, not an error.",
  },
  validateSink: {
    operationId: "validateSink",
    tags,
    summary: "Check a sink",
    description:
      "Connection, authentication, privileges and settings. A failed check is an event, not an error.",
  },
  validateBuffer: {
    operationId: "validateBuffer",
    tags,
    summary: "Check a buffer",
    description: "Whether the service can buffer so. A failed check is an event, not an error.",
  },
};

export function inspectionRoutes(inspection: InspectionService) {
  return new Elysia({ name: "inspection-routes", prefix: "/api/v1", normalize: false })
    .post(
      "/catalog/source",
      async ({ body, query, request }) =>
        inspection.sourceCatalog(body.source, optionalConnectorId(query.connector_id), request.signal),
      {
        parse: parseJson,
        transform: ({ body, query }) => checkSourceBody(body, query.connector_id !== undefined),
        query: ConnectorIdQuery,
        body: schemas.SourceBody,
        response: {
          200: schemas.Catalog,
          ...problems(404, 422, 502, 504),
        },
        detail: details.getSourceCatalog,
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
        transform: ({ body, query }) => checkSourceBody(body, query.connector_id !== undefined),
        query: ConnectorIdQuery,
        body: schemas.SourceBody,
        response: { 200: schemas.ValidateEvents, ...problems(404, 422) },
        detail: details.validateSource,
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
        transform: ({ body, query }) => checkSinkBody(body, query.connector_id !== undefined),
        query: ConnectorIdQuery,
        body: schemas.SinkBody,
        response: { 200: schemas.ValidateEvents, ...problems(404, 422) },
        detail: details.validateSink,
      },
    )
    .post(
      "/validate/buffer",
      async ({ body, query }) => [
        ...(await inspection.validateBuffer(body.buffer, optionalConnectorId(query.connector_id))),
      ],
      {
        parse: parseJson,
        transform: ({ body }) => checkBufferBody(body),
        query: ConnectorIdQuery,
        body: schemas.BufferBody,
        response: { 200: schemas.ValidateEvents, ...problems(404, 422) },
        detail: details.validateBuffer,
      },
    );
}
