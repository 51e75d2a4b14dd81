// A deletion that takes a while is followed by asking for that connector alone: a list of all may be long.

import { expect, test } from "bun:test";
import { deleteConnector } from "../../src/cli/connector-commands.ts";
import { ServiceClient } from "../../src/cli/service-client.ts";
import type { CommandContext } from "../../src/cli/text/terminal.ts";

test("a deletion asks for its connector until it is gone", async () => {
  const requests: string[] = [];
  const access = { url: "http://service", username: null, password: null, token: null };
  const client = new ServiceClient(access, async ({ method, url }) => {
    requests.push(`${method} ${new URL(url).pathname}`);
    return new Response(null, { status: requests.length < 4 ? 200 : 404 });
  });
  const printed: string[] = [];
  const terminal = { print: (text: string) => printed.push(text), width: 80, repaint: null };
  await deleteConnector({ client, terminal, json: false } as unknown as CommandContext, "orders", false);
  const look = "GET /api/v1/connectors/orders";
  expect(requests).toEqual(["DELETE /api/v1/connectors/orders", look, look, look]);
  expect(printed).toEqual(["orders: deleted"]);
});
