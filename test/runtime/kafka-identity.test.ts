// Two connectors must not share a checkpoint at one cluster.

import { expect, test } from "bun:test";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import { RuntimeFixture } from "../support/runtime-fixture.ts";
import { sampleRequest } from "../support/sample-connector.ts";

function request(
  own: { readonly name?: string },
  transactionalId?: string,
  broker = "127.0.0.1:1",
): ConnectorRequest {
  const config = transactionalId === undefined ? {} : { transactions: { transactional_id: transactionalId } };
  const connection = { brokers: [broker], config };
  return {
    ...sampleRequest(),
    sink: { kafka: { ...own, connection, format: { native: {} }, topic_options: {} } },
  };
}

test("a connector that would take another one's checkpoint, or fence it, is refused", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const make = (id: string, made: ConnectorRequest) => connectors.createOrReplace(id, made, null);
  await make("plain", request({}));
  await make("named", request({ name: "shop" }));
  await make("fencing", request({}, "shop-events"));
  for (const [id, made] of [
    ["a", request({ name: "shop" })],
    ["b", request({ name: "plain" })],
    ["c", request({ name: "own" }, "shop-events")],
    ["d", request({}, "millrace-shop")],
  ] as const) {
    await expect(make(id, made)).rejects.toMatchObject({ code: "conflict" });
  }
  await make("elsewhere", request({ name: "shop" }, undefined, "127.0.0.1:2"));
  await make("other", request({ name: "own" }));
  // The same again is itself.
  await make("named", request({ name: "shop" }));
});
