// The secrets of a Kafka sink: hidden in answers, filled from what is stored, and missed.

import { describe, expect, test } from "bun:test";
import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import { checkConnectorRequest } from "../../../src/connector/request/check-request.ts";
import { resolveConnector, resolveGiven } from "../../../src/connector/request/resolve-connector.ts";
import { redactConnector } from "../../../src/connector/secrets.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../../support/servers/tls-certificates.ts";
import { connectionSample, kafkaSinkSample, requestSample, sourceSample } from "../samples.ts";

const brokers = ["kafka.internal:9093"];
const request = (overrides: object) => requestSample({ sink: kafkaSinkSample(overrides) });
const connect = (auth: object, config: object = {}) => ({ connection: { brokers, auth, config } });

const fresh = { id: "orders", stored: null };
const full = (overrides: object) => resolveConnector(request(overrides), fresh);
const kafka = (connector: ConnectorConfig) => connector.sink.kafka!;

/** What the full form is after `overrides` was sent, with the rules of requests. */
function sent(overrides: object, stored: ConnectorConfig, replaces: boolean): ConnectorConfig {
  const body = request(overrides);
  checkConnectorRequest(body);
  return resolveConnector(body, { id: "orders", stored, replaces });
}

function refusal(run: () => unknown): { code: string; paths: string[] } {
  try {
    run();
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    const paths = error.violations.map(({ path }) => path.replace("/sink/kafka", ""));
    return { code: error.code, paths };
  }
  throw new Error("nothing was refused");
}

const logIn = { protocol: "SaslSsl", mechanism: "Plain", username: "u" };
const pem = (note: string, text: string) => `${note}\n${text}`;
const registry = (note: string) => ({
  avro: {
    schema_registry: {
      url: "https://registry",
      username: "u",
      password: `${note}-password`,
      ssl_ca: pem(`${note}-ca`, testRootCertificate),
      ssl_certificate: pem(`${note}-certificate`, testServerCertificate),
      ssl_key: pem(`${note}-key`, testServerKey),
    },
  },
});
const material = {
  ssl_ca: pem("s3cret-2", testRootCertificate),
  ssl_certificate: pem("s3cret-3", testServerCertificate),
  ssl_key: pem("s3cret-4", testServerKey),
};
const everything = {
  ...connect(
    { ...logIn, password: "s3cret-1", ...material, ssl_key_password: "s3cret-5" },
    {
      global_properties: [
        { key: "linger.ms", value: "5" },
        { key: "sasl.password", value: "s3cret-6" },
      ],
      producer_properties: [{ key: "ssl.key.password", value: "s3cret-7" }],
    },
  ),
  format: {
    supermetal: { format_config: { value_serde: registry("s3cret-8"), key_serde: registry("s3cret-9") } },
  },
};

test("redaction hides every secret, and nothing else", () => {
  const config = resolveConnector(
    {
      ...request(everything),
      source: sourceSample({ connection: connectionSample({ password: "s3cret" }) }),
    },
    fresh,
  );
  const before = JSON.stringify(config);
  const shown = JSON.stringify(redactConnector(config));
  expect(shown).toBe(before.replaceAll(/"[^"]*s3cret[^"]*"/g, '"***"'));
  expect(shown).not.toContain("s3cret");
  expect(shown).toContain('{"key":"linger.ms","value":"5"}');
});

test("what was shown can be sent back", () => {
  const given = resolveGiven(request(everything), fresh);
  const stored = full(everything);
  const shown = redactConnector(given);
  checkConnectorRequest(shown);
  for (const replaces of [true, false])
    expect(resolveGiven(shown as ConnectorRequest, { id: "orders", stored, replaces })).toEqual(given);
});

describe("a password", () => {
  const password = "/connection/auth/password";

  test("is missed with a log-in alone, and may be a property's", () => {
    expect(refusal(() => full(connect(logIn)))).toEqual({ code: "missing_secret", paths: [password] });
    expect(refusal(() => full(connect({ ...logIn, password: "***" })))).toMatchObject({ paths: [password] });
    expect(kafka(full(connect({ protocol: "Ssl" }))).connection.auth).toEqual({ protocol: "Ssl" });
    const properties = [{ key: "sasl.password", value: "p" }];
    const auth = kafka(full(connect(logIn, { producer_properties: properties }))).connection.auth;
    expect(auth).not.toHaveProperty("password");
  });

  test("comes from what is stored, but for a protocol without a log-in", () => {
    const stored = full(connect({ ...logIn, password: "p" }));
    for (const replaces of [true, false]) {
      expect(sent(connect(logIn), stored, replaces)).toEqual(stored);
      const plain = sent(connect({ protocol: "Ssl" }), stored, replaces);
      expect(kafka(plain).connection.auth).toEqual({ protocol: "Ssl" });
    }
  });

  test("of a registry is missed with a user name", () => {
    const schema_registry = { url: "http://registry", username: "u" };
    const format = { native: { format_config: { value_serde: { avro: { schema_registry } } } } };
    expect(refusal(() => full({ format }))).toEqual({
      code: "missing_secret",
      paths: ["/format/native/format_config/value_serde/avro/schema_registry/password"],
    });
    const open = { avro: { schema_registry: { url: "http://registry" } } };
    const stored = full({ format: { native: { format_config: { value_serde: registry("a") } } } });
    const changed = sent({ format: { native: { format_config: { value_serde: open } } } }, stored, false);
    expect(kafka(changed).format.native?.format_config?.value_serde.avro?.schema_registry).toEqual({
      url: "http://registry",
    });
  });
});

describe("certificates and keys", () => {
  const stored = full(connect({ protocol: "Ssl", ...material }));

  test("that are left out stay, unless the connector is replaced", () => {
    expect(sent(connect({ protocol: "Ssl" }), stored, false)).toEqual(stored);
    const replaced = sent(connect({ protocol: "Ssl" }), stored, true);
    expect(kafka(replaced).connection.auth).toEqual({ protocol: "Ssl" });
  });

  test("yield to a path, and to a protocol without TLS", () => {
    const paths = { ssl_ca_location: "/ca", ssl_certificate_location: "/c", ssl_key_location: "/k" };
    const changed = sent(connect({ protocol: "Ssl", ...paths }), stored, false);
    expect(kafka(changed).connection.auth).toEqual({ protocol: "Ssl", ...paths });
    const plain = sent(connect({ protocol: "Plaintext" }), stored, false);
    expect(kafka(plain).connection.auth).toEqual({ protocol: "Plaintext" });
  });
});

describe("properties", () => {
  const list = (...properties: object[]) => connect(logIn, { producer_properties: properties });
  const stored = full(list({ key: "sasl.password", value: "p" }, { key: "linger.ms", value: "5" }));
  const properties = (connector: ConnectorConfig) => kafka(connector).connection.config.producer_properties;

  test("are matched by their keys", () => {
    const changed = sent(list({ key: "linger.ms" }, { key: "sasl.password", value: "***" }), stored, true);
    expect(properties(changed)).toEqual([
      { key: "linger.ms", value: "5" },
      { key: "sasl.password", value: "p" },
    ]);
  });

  test("without a value, stored or given, are missed", () => {
    const at = "/connection/config/producer_properties";
    const unknown = list({ key: "sasl.password" }, { key: "batch.size" });
    expect(refusal(() => sent(unknown, stored, true))).toEqual({
      code: "missing_secret",
      paths: [`${at}/1/value`],
    });
  });

  test("take part in the rules when they are filled", () => {
    const off = { transactions: { enabled: false } };
    const loose = full(connect({}, { ...off, producer_properties: [{ key: "acks", value: "1" }] }));
    const strict = connect({}, { producer_properties: [{ key: "acks" }] });
    expect(refusal(() => sent(strict, loose, true))).toEqual({
      code: "invalid_request",
      paths: ["/connection/config/producer_properties/0/value"],
    });
  });
});
