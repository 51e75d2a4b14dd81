// The service about itself: its settings, threads and memory, and its replicas.

import { Elysia } from "elysia";
import { NoQuery, schemas } from "../openapi/named-schemas.ts";
import type { ReportService } from "../services.ts";

const tags = ["Service"];

export function reportRoutes(report: ReportService) {
  return new Elysia({ name: "report-routes", prefix: "/api/v1", normalize: false })
    .get("/service", () => report.service(), {
      query: NoQuery,
      response: { 200: schemas.ServiceReport },
      detail: {
        operationId: "getServiceReport",
        tags,
        summary: "Get the service's settings, threads and memory",
        description: "Of the process that answers. No secret is shown.",
      },
    })
    .get("/replicas", () => report.replicas(), {
      query: NoQuery,
      response: { 200: schemas.ReplicaList },
      detail: {
        operationId: "listReplicas",
        tags,
        summary: "List the replicas of the service",
        description:
          "By id. Services that share a Postgres state are replicas of one installation, and each answers every request. One that has " +
          "died is listed for a while. With embedded state there is one.",
      },
    });
}
