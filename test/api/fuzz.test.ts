// Requests made from the service's own OpenAPI document and broken in every way. None causes a fault, each response
// matches the document, and none repeats a secret.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { brokenRequest, marker, operationsOf } from "../support/api/broken-requests.ts";
import { checksAnswers } from "../support/oracles/documented-answers.ts";
import { apiClient, connector, planted } from "./api-client.ts";

const api = apiClient();
const { body: document } = await api.call("GET", "/swagger/json");
const operations = operationsOf(document);
const wrongWith = checksAnswers(document);

/** The example, with passwords that no response may repeat. */
function withSecrets(example: unknown): unknown {
  return (
    example &&
    JSON.parse(JSON.stringify(example).replaceAll('"password":"example"', `"password":"${planted}"`))
  );
}

test.each(operations.map((operation) => [operation.id, operation] as const))(
  "broken requests of %s",
  async (_, operation) => {
    await api.call("POST", "/api/v1/connectors/fuzzed", connector());
    await fc.assert(
      fc.asyncProperty(brokenRequest(operation, withSecrets), async ({ target, body, isRouted }) => {
        const { status, headers, text } = await api.call(operation.method, target, body);
        expect(api.faults).toEqual([]);
        if (status >= 400) expect(text).not.toContain(marker);
        if (isRouted)
          expect(wrongWith(operation, { status, contentType: headers.get("content-type"), text })).toBeNull();
      }),
      { numRuns: operation.examples.length > 0 ? 400 : 100 },
    );
  },
  60_000,
);
