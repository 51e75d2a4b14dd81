// The certificates and keys of a Kafka sink, and of the schema registries that it uses.

import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { materialViolations } from "../../../src/connector/config/kafka/kafka-material.ts";
import type { KafkaSinkRequest } from "../../../src/connector/config/kafka-config.ts";
import { resolveSink } from "../../../src/connector/request/resolve-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../../support/servers/tls-certificates.ts";
import { kafkaSinkSample } from "../samples.ts";

const brokers = ["kafka.internal:9093"];
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const otherKey = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const encryptedKey = privateKey
  .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "open" })
  .toString();
const certificate = { ssl_certificate: testServerCertificate, ssl_key: testServerKey };

function problems(auth: object, config: object = {}): Record<string, string> {
  const { kafka } = kafkaSinkSample({ connection: { brokers, auth: { protocol: "Ssl", ...auth }, config } });
  const found = materialViolations(kafka as KafkaSinkRequest);
  return Object.fromEntries(
    found.map(({ path, message }) => [path.replace("/sink/kafka/connection/auth/", ""), message]),
  );
}

describe("brokers", () => {
  test("texts and paths that go together are taken", () => {
    expect(problems({})).toEqual({});
    expect(problems({ ssl_ca: testRootCertificate, ...certificate })).toEqual({});
    const paths = { ssl_certificate_location: "/c.pem", ssl_key_location: "/k.pem", ssl_key_password: "x" };
    expect(problems(paths)).toEqual({});
    expect(problems({ ssl_certificate: testServerCertificate, ssl_key_location: "/k.pem" })).toEqual({});
    expect(problems({ ssl_certificate_location: "/c.pem", ssl_key: testServerKey })).toEqual({});
    expect(problems({ ssl_ca: "", ssl_certificate: null, ssl_key: "", ssl_key_password: "" })).toEqual({});
  });

  test("a certificate without its key, a key without its certificate, and a passphrase without a key", () => {
    expect(problems({ ssl_certificate: testServerCertificate }).ssl_key).toStartWith(
      "required with ssl_certificate",
    );
    expect(problems({ ssl_key: testServerKey }).ssl_certificate).toStartWith("required with ssl_key");
    expect(problems({ ssl_certificate_location: "/c.pem" })).toEqual({
      ssl_key_location: "required with ssl_certificate_location, or ssl_key",
    });
    expect(problems({ ssl_key_location: "/k.pem" })).toEqual({
      ssl_certificate_location: "required with ssl_key_location, or ssl_certificate",
    });
    expect(problems({ ssl_key_password: "x" })).toEqual({
      ssl_key_password: "belongs to a key, and there is none",
    });
  });

  test("what is no PEM, or another certificate's key", () => {
    expect(problems({ ssl_ca: "/etc/ca.pem" }).ssl_ca).toStartWith("expected a certificate as PEM text");
    expect(problems({ ...certificate, ssl_key: otherKey })).toEqual({
      ssl_key: "this is not the key of ssl_certificate: give the two that belong together",
    });
  });

  test("an encrypted key needs its passphrase", () => {
    const key = { ssl_certificate_location: "/c.pem", ssl_key: encryptedKey };
    expect(problems(key)).toEqual({
      ssl_key: "the key is encrypted: give its passphrase in ssl_key_password",
    });
    expect(problems({ ...key, ssl_key_password: "shut" })).toEqual({
      ssl_key:
        "the key cannot be decrypted with ssl_key_password, or its text is not complete, or was altered",
    });
    expect(problems({ ...key, ssl_key_password: "open" })).toEqual({});
    const property = { producer_properties: [{ key: "ssl.key.password", value: "open" }] };
    expect(problems({ ...key, ssl_key_password: "shut" }, property)).toEqual({});
    expect(
      problems({ ...key, ssl_certificate: testServerCertificate, ssl_key_password: "open" }).ssl_key,
    ).toStartWith("this is not the key");
  });
});

test("a registry's, with the request", () => {
  const schema_registry = {
    url: "https://registry",
    ssl_certificate: testServerCertificate,
    ssl_ca: "planted",
  };
  const format = { debezium: { format_config: { key_serde: { avro: { schema_registry } } } } };
  try {
    resolveSink(kafkaSinkSample({ format }), null);
    throw new Error("nothing was refused");
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    expect(error.code).toBe("invalid_request");
    const at = "/sink/kafka/format/debezium/format_config/key_serde/avro/schema_registry";
    expect(error.violations.map(({ path }) => path)).toEqual([`${at}/ssl_ca`, `${at}/ssl_key`]);
    expect(JSON.stringify(error.violations)).not.toContain("planted");
  }
});
