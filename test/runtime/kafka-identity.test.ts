// Two connectors must not share a checkpoint at one cluster.

import { expect, test } from "bun:test";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";

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

test("of two that ask for one checkpoint at the same moment, one gets it", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const made = await Promise.allSettled(
    ["a", "b", "c"].map((id) => connectors.createOrReplace(id, request({ name: "shop" }), null)),
  );
  expect(made.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected", "rejected"]);
  await connectors.createOrReplace("d", request({ name: "own" }), null);
  await connectors.createOrReplace("e", request({ name: "other" }), null);
  const replaced = await Promise.allSettled(
    ["d", "e"].map((id) => connectors.createOrReplace(id, request({ name: "store" }), null)),
  );
  expect(replaced.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
});

test("a replacement takes no other connector's checkpoint either, and what stays at its place goes on", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const put = (id: string, made: ConnectorRequest) => connectors.createOrReplace(id, made, null);
  await put("first", request({ name: "shop" }, undefined, "Kafka.invalid:9092"));
  await put("second", request({ name: "store" }, undefined, "kafka.invalid:9092"));
  const taken = request({ name: "shop" }, undefined, "kafka.invalid:9092");
  await expect(put("second", taken)).rejects.toMatchObject({ code: "conflict" });
  await expect(put("shop", request({}, undefined, "kafka.invalid:9092"))).rejects.toMatchObject({
    code: "conflict",
  });
  const named = { ...request({ name: "store" }, undefined, "kafka.invalid:9092"), name: "Store" };
  expect(await put("second", named)).toBe("replaced");
  // Its record at the place that it left is still to be removed.
  await connectors.command("first", "Stop");
  await runtime.state.connectors.update("first", {
    given: request({ name: "moved" }, undefined, "kafka.invalid:9092"),
    cleanup: (await runtime.state.connectors.get("first")).config,
  });
  await expect(put("second", taken)).rejects.toMatchObject({ code: "conflict" });
});
