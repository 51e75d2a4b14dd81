// Routes about the service itself, without a prefix: health, readiness, metrics, and the number of tables being copied.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { HealthService, MetricsService, SnapshotService } from "../services.ts";

const tags = ["Service"];

/** Paths, so that they hold behind a proxy under any host name. */
const links = {
  api: "/api/v1/connectors",
  documentation: "/swagger",
  openapi: "/swagger/json",
  health: "/healthz",
  readiness: "/readyz",
  metrics: "/metrics",
};

export interface ServiceRouteServices {
  readonly health: HealthService;
  readonly snapshots: SnapshotService;
  readonly metrics: MetricsService;
}

export function serviceRoutes({ health, snapshots, metrics }: ServiceRouteServices, version: string) {
  return new Elysia({ name: "service-routes", normalize: false })
    .get(
      "/",
      ({ set }) => {
        set.headers.vary = "accept";
        return { name: "millrace" as const, version, links };
      },
      {
        query: NoQuery,
        response: { 200: schemas.ServiceAbout },
        detail: {
          operationId: "getService",
          tags,
          summary: "What this is, and where to find the rest",
          description:
            "A client that prefers `text/html`, as browsers do, gets the console in place of this.",
        },
      },
    )
    .get("/healthz", () => ({ status: "ok" as const }), {
      response: { 200: schemas.ServiceHealth },
      detail: { operationId: "getHealth", tags, summary: "Whether the service lives", security: [] },
    })
    .get(
      "/readyz",
      async () => {
        const readiness = await health.readiness();
        if (!readiness.ready) throw new MillraceError("state_unavailable", readiness.reason);
        return { status: "ok" as const };
      },
      {
        response: { 200: schemas.ServiceHealth, ...problems(503) },
        detail: {
          operationId: "getReadiness",
          tags,
          summary: "Whether the service can work now",
          security: [],
        },
      },
    )
    .get("/snapshots", () => snapshots.activity(), {
      query: NoQuery,
      response: { 200: schemas.SnapshotActivity },
      detail: {
        operationId: "getSnapshotActivity",
        tags,
        summary: "How many tables are being copied, by all replicas",
      },
    })
    .get(
      "/metrics",
      async ({ set }) => {
        set.headers["content-type"] = "text/plain; version=0.0.4; charset=utf-8";
        return metrics.text();
      },
      {
        response: { 200: Type.String({ description: "Prometheus text exposition format." }) },
        detail: {
          operationId: "getMetrics",
          tags,
          summary: "Metrics for Prometheus",
          description: "Of the replica that answers, and of the connectors that it holds.",
        },
      },
    );
}
