// What was measured of connectors in the last hour.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { optionalConnectorId } from "../guards/path-ids.ts";
import { problems, SamplesQuery, schemas } from "../openapi/named-schemas.ts";
import type { SampleService } from "../services.ts";

const detail = {
  operationId: "getSamples",
  tags: ["Runs"],
  summary: "Get what was measured in the last hour",
  description:
    "A sample is taken every 5 s, and kept in memory for an hour. Of one connector the whole hour is returned, of all the last ten " +
    "minutes. With `since`: only steps that ended later. Where the machine slept, or a clock was set, nothing is known: null.",
};

export function sampleRoutes(samples: SampleService) {
  return new Elysia({ name: "sample-routes", prefix: "/api/v1", normalize: false }).get(
    "/samples",
    async ({ query }) =>
      samples.read(
        optionalConnectorId(query.connector_id),
        query.since === undefined ? null : timeOf(query.since),
      ),
    {
      query: SamplesQuery,
      response: { 200: schemas.SampleList, ...problems(404) },
      detail,
    },
  );
}

/** In milliseconds since the epoch. Throws `invalid_query` for a day that there is not. */
function timeOf(text: string): number {
  const ms = Date.parse(text);
  if (!Number.isNaN(ms)) return ms;
  const violations = [{ path: "/since", message: "expected a time that there is" }];
  throw new MillraceError("invalid_query", "A query parameter is unknown or has a wrong value.", {
    violations,
  });
}
