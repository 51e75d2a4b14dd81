import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { configFile } from "../../../../console/pages/connector/configuration/config-file.ts";
import { parseConnectors } from "../../../../src/cli/connector-file.ts";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { given } from "./given.ts";

type Config = GivenConnector["connector"];

/** What the service reads from the file, with every variable set to `***`. */
function readBack(connector: Config): unknown {
  const { text, variables } = configFile(connector);
  const environment = Object.fromEntries(variables.map((name) => [name, "***"]));
  return parseConnectors(text, "file", environment)[0]?.body;
}

describe("the file for serve --config", () => {
  test("names a variable for each secret", () => {
    const { text, variables } = configFile(given().connector);
    expect(variables).toEqual(["ORDERS_SOURCE_PASSWORD", "ORDERS_SINK_PASSWORD"]);
    expect(text).toContain(`"password": "\${ORDERS_SINK_PASSWORD}"`);
    expect(text).not.toContain("***");
  });

  test("comes to the same connector, without what is null", () => {
    const { connector } = given();
    expect(readBack({ ...connector, name: null, buffer: null })).toEqual(connector);
  });

  test("gives different secrets different names", () => {
    const { connector } = given({ id: "1-x", toWebhook: true });
    const header = (name: string) => ({ name, value: "***" });
    const webhook = {
      ...connector.sink.webhook!,
      auth: { bearer: { token: "***" } },
      headers: { static_: [header("X-Key"), header("x key"), header("***")] },
    };
    const { variables } = configFile({ ...connector, sink: { webhook } } as Config);
    expect(new Set(variables).size).toBe(variables.length);
    expect(variables).toContain("_1_X_SINK_TOKEN");
    expect(variables).toContain("_1_X_SINK_X_KEY_2");
    for (const name of variables) expect(name).toMatch(/^[A-Z_][A-Z0-9_]*$/);
  });

  test("takes no text for a variable that is none", () => {
    const text = fc
      .array(fc.constantFrom("$", "{", "}", `\${A}`, `$\${B_1}`, "x", '"', "😀"))
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, (name) => {
        const connector = { ...given().connector, name };
        expect(readBack(connector)).toEqual(connector);
      }),
    );
  });
});
