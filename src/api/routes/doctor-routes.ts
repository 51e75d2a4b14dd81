// Reports what is wrong with the service and its connectors.

import { Elysia } from "elysia";
import { refuseFromElsewhere } from "../guards/cross-site-guard.ts";
import { optionalConnectorId } from "../guards/path-ids.ts";
import { problems, schemas, WhichConnectorQuery } from "../openapi/named-schemas.ts";
import type { DoctorService } from "../services.ts";

const detail = {
  operationId: "examine",
  tags: ["Service"],
  summary: "Find out what is wrong",
  description:
    "Goes through state store, disk, threads and replicas, and for each connector, wherever it runs, through status, source, slot, clock and sink. Each finding says " +
    "what to do about it. Nothing is changed; a webhook gets one POST of `[]` as by `validate/sink`, and Kafka no message. Who asks the same " +
    "while an examination is under way shares it.",
};

export function doctorRoutes(doctor: DoctorService) {
  return new Elysia({ name: "doctor-routes", prefix: "/api/v1", normalize: false }).get(
    "/doctor",
    async ({ query, request }) => {
      refuseFromElsewhere(request);
      return [...(await doctor.examine(optionalConnectorId(query.connector_id), request.signal))];
    },
    {
      query: WhichConnectorQuery,
      response: { 200: schemas.Diagnoses, ...problems(403, 404) },
      detail,
    },
  );
}
