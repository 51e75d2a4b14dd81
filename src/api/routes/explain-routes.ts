// Tells what became of a row.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { keyViolations } from "../../connector/replay.ts";
import { patternWithoutNul, strictObject } from "../../connector/request/schema-forms.ts";
import { invalidRequest } from "../../errors/invalid-input.ts";
import { ConnectorPath, knownConnectorId } from "../guards/path-ids.ts";
import { unusableParts } from "../guards/unusable-json.ts";
import { problems, schemas } from "../openapi/named-schemas.ts";
import type { ExplainService } from "../services.ts";

const detail = {
  operationId: "explainRow",
  tags: ["Connectors"],
  summary: "Tell what became of a row",
  description:
    "Where the last known change of a row is: delivered, tried again, waiting, parked, refused or discarded; and in which requests earlier ones were. " +
    "It comes from receipts, which `limits.receipts_hours` has a connector to a webhook or Kafka keep. What they do not have is not guessed.",
};

const ExplainQuery = strictObject({
  schema: Type.Optional(
    Type.String({
      minLength: 1,
      pattern: patternWithoutNul,
      description: "The table's schema. Left out: `public`.",
    }),
  ),
  table: Type.String({ minLength: 1, pattern: patternWithoutNul, description: "Its name." }),
  key: Type.String({
    minLength: 2,
    maxLength: 65_536,
    description: 'The row\'s key as JSON, as the receiver sees it: `{"id":7}`.',
  }),
});

export function explainRoutes(explain: ExplainService) {
  return new Elysia({ name: "explain-routes", prefix: "/api/v1", normalize: false }).get(
    "/connectors/:connector_id/explain",
    async ({ params, query }) => {
      const { schema = "public", table: name, key } = query;
      const request = { schema, name, key: keyOf(key) };
      return await explain.explain(knownConnectorId(params.connector_id), request);
    },
    {
      params: ConnectorPath,
      query: ExplainQuery,
      response: { 200: schemas.Explanation, ...problems(404, 422) },
      detail,
    },
  );
}

/** Throws `invalid_request`. */
function keyOf(text: string): Readonly<Record<string, unknown>> {
  let key: unknown;
  try {
    key = JSON.parse(text);
  } catch {
    key = null;
  }
  const message = 'expected a JSON object of the key\'s columns, as {"id":7}';
  if (typeof key !== "object" || key === null || Array.isArray(key))
    throw invalidRequest([{ path: "/key", message }]);
  const values = key as Record<string, unknown>;
  const notScalar = keyViolations(values, "/key");
  const violations = notScalar.length > 0 ? notScalar : unusableParts({ key });
  if (violations.length > 0) throw invalidRequest(violations);
  return values;
}
