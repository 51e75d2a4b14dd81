// The form in which connectors are stored and shown: what the client gave.

import { expect, test } from "bun:test";
import { Check } from "@sinclair/typebox/value";
import fc from "fast-check";
import {
  type ConnectorConfig,
  ConnectorConfigSchema,
  type ConnectorRequest,
  ConnectorRequestSchema,
} from "../../../src/connector/connector.ts";
import { checkConnectorRequest } from "../../../src/connector/request/check-request.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import { inferGivenForm } from "../../../src/connector/request/given-form.ts";
import { patchConnector } from "../../../src/connector/request/patch-connector.ts";
import { resolveConnector, resolveGiven } from "../../../src/connector/request/resolve-connector.ts";
import { redactConnector } from "../../../src/connector/secrets.ts";
import { randomConnector } from "../../support/loads/random-connector.ts";
import { givenDifferences } from "../../support/oracles/given-differences.ts";
import { requestSample, webhookSinkSample } from "../samples.ts";

const fresh = { id: "orders", stored: null };
const given = (request: object) => resolveGiven(request as ConnectorRequest, fresh);
const full = (request: object) => resolveConnector(request as ConnectorRequest, fresh);

function forEachConnector(check: (request: object) => void): void {
  fc.assert(fc.property(randomConnector("orders"), check), { numRuns: 300 });
}

test("it is what was sent, with scalars inside what was sent; secrets are hidden", () => {
  forEachConnector((request) => {
    checkConnectorRequest(request);
    const shown = redactConnector(given(request));
    expect(givenDifferences(request, shown)).toEqual([]);
    expect(JSON.stringify(shown)).not.toContain("secret-");
    expect(Check(ConnectorRequestSchema, shown)).toBe(true);
    expect(Check(ConnectorConfigSchema, full(request))).toBe(true);
  });
});

test("sent back, with its secrets hidden, or patched with nothing, it is the same", () => {
  forEachConnector((request) => {
    const before = given(request);
    const stored = completeConnector(before, "orders");
    const again = resolveGiven(redactConnector(before), { id: "orders", stored, replaces: true });
    expect(again).toEqual(before);
    expect(patchConnector(before, {})).toEqual(before);
    // In a patch, null takes a member out: what is left means the same.
    const patched = patchConnector(before, redactConnector(before) as never);
    expect(completeConnector(patched, "orders")).toEqual(stored);
  });
});

test("of a connector that was stored in full form, it has the same full form, and no default object", () => {
  forEachConnector((request) => {
    const stored = full(request);
    expect(completeConnector(inferGivenForm(stored), "orders")).toEqual(stored);
  });
  const plain = requestSample({ sink: webhookSinkSample() });
  expect(inferGivenForm(full(plain))).toEqual(given(plain));
});

test("a setting that a later version adds gets its default in what is stored", () => {
  const stored = full(requestSample({ sink: webhookSinkSample() }));
  const { max_in_flight: _, ...earlier } = stored.sink.webhook!;
  const old = { ...stored, sink: { webhook: earlier } } as unknown as ConnectorConfig;
  expect(completeConnector(inferGivenForm(completeConnector(old, "orders")), "orders")).toEqual(stored);
});
