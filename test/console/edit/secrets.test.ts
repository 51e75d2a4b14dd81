// Secrets are never shown. What the API hides is the oracle.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { curlOf } from "../../../console/pages/edit/model/curl.ts";
import {
  kept,
  withoutSecrets,
  withPlaceholders,
  withSecretsOf,
} from "../../../console/pages/edit/model/secrets.ts";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import type { JsonObject, JsonValue } from "../../../src/connector/request/merge-patch.ts";
import { redacted } from "../../../src/connector/request/redacted.ts";
import { redactConnector } from "../../../src/connector/secrets.ts";
import { randomConnector } from "../../support/loads/random-connector.ts";

/** Places at which the API says that there is a secret. */
function hiddenPlaces(
  value: JsonValue,
  path: readonly (string | number)[] = [],
): (readonly (string | number)[])[] {
  if (value === redacted) return [path];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => hiddenPlaces(inner, [...path, key]));
}

const at = (value: JsonValue, path: readonly (string | number)[]) =>
  path.reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[String(key)], value);

describe("secrets", () => {
  test("stand for the same as in the API", () => expect(kept).toBe(redacted));

  test("are hidden wherever the API hides them, in JSON and in commands", () => {
    fc.assert(
      fc.property(randomConnector("orders"), (request) => {
        const config = request as unknown as JsonObject;
        const shown = withoutSecrets(config, null);
        const command = withPlaceholders(config, null);
        for (const place of hiddenPlaces(
          redactConnector(request as ConnectorRequest) as unknown as JsonObject,
        )) {
          const secret = String(at(config, place));
          if (secret === "") continue;
          expect(at(shown, place)).toBe(kept);
          expect(String(at(command, place))).toMatch(/^<.+>$/);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("come back when the shown text is edited, whatever moves in a list", () => {
    const before = {
      connection: { host: "a", password: "s1" },
      headers: [
        { name: "X-One", value: "v1" },
        { name: "X-Two", value: "v2" },
      ],
    };
    const edited = { connection: { host: "b", password: kept }, headers: [{ name: "X-Two", value: kept }] };
    expect(withSecretsOf(edited, before)).toEqual({
      connection: { host: "b", password: "s1" },
      headers: [{ name: "X-Two", value: "v2" }],
    });
    expect(withSecretsOf({ password: kept }, {})).toEqual({ password: kept });
  });

  test("a value that the API shows may be seen", () => {
    const config = { sink: { webhook: { headers: { static_: [{ name: "X-Env", value: "prod" }] } } } };
    expect(withoutSecrets(config, config)).toEqual(config);
    expect(withoutSecrets(config, null)).toEqual({
      sink: { webhook: { headers: { static_: [{ name: "X-Env", value: kept }] } } },
    });
    expect(withoutSecrets({ password: "typed" }, { password: kept })).toEqual({ password: kept });
  });
});

test("a command survives quotes, and names the variables of the reader's sign-in", () => {
  const command = curlOf({
    method: "PATCH",
    url: "http://h/api/v1/connectors/a",
    signIn: "bearer",
    headers: { "if-none-match": "*" },
    body: { name: "it's; $(rm -rf /)" },
  });
  expect(command).toContain(`'\\''s; $(rm -rf /)`);
  expect(command).toContain('-H "authorization: Bearer $MILLRACE_API_TOKEN"');
  expect(command).toContain("-H 'if-none-match: *'");
  const { stdout } = Bun.spawnSync(["sh", "-c", command.replace(/^curl /, "printf '%s\\n' ")]);
  expect(stdout.toString()).toContain(`"name": "it's; $(rm -rf /)"`);
});
