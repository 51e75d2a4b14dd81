import { expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { locateFailure } from "../../../src/runtime/run/located-failure.ts";
import { configSample, connectionSample, sourceSample, webhookSinkSample } from "../../connector/samples.ts";
import { bringKey } from "../../support/ssh-keys.ts";

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

test("other failures are unchanged", () => {
  expect(text("slot_missing")).toBe("It is gone.");
  expect(text("sink_unreachable", configSample({ sink: webhookSinkSample() }))).toBe("It is gone.");
});
