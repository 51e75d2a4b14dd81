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

  test("a key whose passphrase would be hashed for minutes is refused at once", () => {
    const key = (der: Buffer) =>
      `-----BEGIN ENCRYPTED PRIVATE KEY-----\n${der.toString("base64")}\n-----END ENCRYPTED PRIVATE KEY-----\n`;
    const problem = (der: Buffer) =>
      problems({ ssl_certificate_location: "/c.pem", ssl_key: key(der), ssl_key_password: "open" }).ssl_key;
    const takesLong = "the key's passphrase is hashed more than 1000000 times, which takes too long";
    expect(problem(encryptedDer(100_000_000))).toStartWith(takesLong);
    expect(problem(encryptedDer(1_000_001))).toStartWith(takesLong);
    expect(problem(encryptedDer(2048))).toStartWith("the key cannot be decrypted");
    const headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n";
    const hidden = key(encryptedDer(100_000_000)).replace("KEY-----\n", `KEY-----\n${headers}`);
    const within = { ssl_certificate_location: "/c.pem", ssl_key: hidden, ssl_key_password: "open" };
    expect(problems(within).ssl_key).toStartWith("the key cannot be read");
    // A length without an end, again and again.
    expect(problem(Buffer.alloc(500_000, "3080", "hex"))).toStartWith("the key cannot be decrypted");
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

/** An EncryptedPrivateKeyInfo of no key: AES-256 by PBKDF2. */
function encryptedDer(iterations: number): Buffer {
  const tlv = (tag: number, ...parts: readonly Buffer[]) => {
    const content = Buffer.concat(parts);
    return Buffer.concat([Buffer.from([tag, content.length]), content]);
  };
  const hex = (text: string) => Buffer.from(text, "hex");
  const number = Buffer.alloc(5);
  number.writeUInt32BE(iterations, 1);
  const pbkdf2 = tlv(0x30, hex("06092a864886f70d01050c"), tlv(0x30, tlv(4, Buffer.alloc(8)), tlv(2, number)));
  const aes = tlv(0x30, hex("060960864801650304012a"), tlv(4, Buffer.alloc(16)));
  const algorithm = tlv(0x30, hex("06092a864886f70d01050d"), tlv(0x30, pbkdf2, aes));
  return tlv(0x30, algorithm, tlv(4, Buffer.alloc(32)));
}
