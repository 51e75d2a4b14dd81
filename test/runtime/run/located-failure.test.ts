import { expect, test } from "bun:test";
import { resolveSink } from "../../../src/connector/request/resolve-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { locateFailure } from "../../../src/runtime/run/located-failure.ts";
import { configSample, connectionSample, sourceSample, webhookSinkSample } from "../../connector/samples.ts";
import { bringKey } from "../../support/servers/ssh-keys.ts";

const text = (code: ConstructorParameters<typeof MillraceError>[0], config = configSample()) =>
  locateFailure(new MillraceError(code, "It is gone."), config).message;

test("a failed connection is reported with its side and host", () => {
  expect(text("source_connection_lost")).toBe("Source db.internal:5432: It is gone.");
  expect(text("sink_connection_lost")).toBe("Sink db.internal:5432: It is gone.");
});

test("a permanent failure is reported with a remedy", () => {
  const remedy = "Put that right, then send the command Start.";
  expect(text("sink_authentication_failed")).toBe(`Sink db.internal:5432: It is gone. ${remedy}`);
  expect(text("source_authentication_failed")).toBe(`Source db.internal:5432: It is gone. ${remedy}`);
});

test("and with the SSH servers in between", () => {
  const { privateKey } = bringKey("ed25519");
  const auth = { bring_your_own_key: { private_key: privateKey } };
  const ssh = { bastion_host: "b.example", user: "u", auth, bastion_alternates: ["::1"] };
  const source = sourceSample({ connection: connectionSample({ host: "::2", tunnel: { ssh } }) });
  expect(text("source_unreachable", configSample({ source }))).toBe(
    "Source [::2]:5432 through b.example:22 or [::1]:22: It is gone.",
  );
});

test("brokers are named, some of them", () => {
  const brokers = ["a:9092", "b:9092", "c:9092", "d:9092"];
  const kafka = { connection: { brokers }, format: { native: {} }, topic_options: {} };
  const sink = resolveSink({ kafka }, null);
  expect(text("sink_unreachable", configSample({ sink }))).toBe(
    "Sink a:9092, b:9092, c:9092 and 1 more: It is gone.",
  );
  expect(text("sink_authentication_failed", configSample({ sink }))).toEndWith(
    "then send the command Start.",
  );
});

test("other failures are unchanged", () => {
  expect(text("slot_missing")).toBe("It is gone.");
  expect(text("sink_unreachable", configSample({ sink: webhookSinkSample() }))).toBe("It is gone.");
});
