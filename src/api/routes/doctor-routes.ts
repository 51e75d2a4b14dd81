// Reports what is wrong with the service and its connectors.

import { Elysia } from "elysia";
import { optionalConnectorId } from "../guards/path-ids.ts";
import { problems, schemas, WhichConnectorQuery } from "../openapi/named-schemas.ts";
import type { DoctorService } from "../services.ts";

const detail = {
  operationId: "examine",
  tags: ["Service"],
  summary: "Find out what is wrong",
  description:
    "Goes through state store, disk, threads and replicas, and for each connector, wherever it runs, through status, source, slot, clock and sink. Each finding says " +
    "what to do about it. Nothing is changed; a webhook gets one POST of `[]` as by `validate/sink`, and Kafka no message.",
};

export function doctorRoutes(doctor: DoctorService) {
  return new Elysia({ name: "doctor-routes", prefix: "/api/v1", normalize: false }).get(
    "/doctor",
    async ({ query, request }) => [
      ...(await doctor.examine(optionalConnectorId(query.connector_id), request.signal)),
    ],
    {
      query: WhichConnectorQuery,
      response: { 200: schemas.Diagnoses, ...problems(404) },
      detail,
    },
  );
}
