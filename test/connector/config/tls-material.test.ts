import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { tlsProblems } from "../../../src/connector/config/tls-material.ts";
import { resolveConnector } from "../../../src/connector/request/resolve-connector.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../../support/servers/tls-certificates.ts";
import { clientCertificate, connectionSample, requestSample, sourceSample } from "../samples.ts";

const problems = (connection: object) =>
  Object.fromEntries(tlsProblems(connection, "").map(({ path, message }) => [path, message]));

const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const otherKey = privateKey.export({ type: "sec1", format: "pem" }).toString();
const parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";

test("certificates and keys as tools write them are taken", () => {
  expect(problems({})).toEqual({});
  expect(problems({ ssl_cert: null, ssl_key: null, ssl_root_cert: null })).toEqual({});
  expect(problems({ ...clientCertificate, ssl_root_cert: testRootCertificate })).toEqual({});
  const bundle = `# two of them\n${testRootCertificate}\nsubject=CN = b\n${testServerCertificate}`;
  expect(problems({ ssl_root_cert: bundle.replaceAll("\n", "\r\n") })).toEqual({});
  const chain = `${testServerCertificate}${testRootCertificate}`;
  expect(problems({ ssl_cert: chain, ssl_key: `Bag Attributes\n${testServerKey}` })).toEqual({});
});

test.each(["/etc/ssl/root.pem", "planted", testServerKey])("a root certificate that is none: %j", (text) => {
  const { "/ssl_root_cert": message } = problems({ ssl_root_cert: text });
  expect(message).toStartWith("expected a certificate as PEM text, from -----BEGIN CERTIFICATE-----");
  expect(message).not.toContain("planted");
});

test("an empty text is none, as a variable that is not set leaves it behind", () => {
  expect(problems({ ssl_root_cert: "", ssl_cert: "", ssl_key: "" })).toEqual({});
  expect(Object.keys(problems({ ssl_cert: testServerCertificate, ssl_key: "" }))).toEqual(["/ssl_key"]);
});

test("a certificate that was cut off or altered is counted", () => {
  const cut = testRootCertificate.slice(0, 300);
  const message = "cannot be read: its text is not complete, or was altered";
  expect(problems({ ssl_root_cert: cut })).toEqual({ "/ssl_root_cert": `certificate 1 of 1 ${message}` });
  const second = `${testRootCertificate}${testServerCertificate.replace("MIIB", "MIIA")}`;
  expect(problems({ ssl_root_cert: second })).toEqual({ "/ssl_root_cert": `certificate 2 of 2 ${message}` });
});

test("a client certificate and its key go together", () => {
  const { ssl_cert, ssl_key } = clientCertificate;
  expect(problems({ ssl_cert })["/ssl_key"]).toStartWith("required with ssl_cert: the private key of");
  expect(problems({ ssl_key, ssl_cert: null })["/ssl_cert"]).toStartWith("required with ssl_key: the client");
  expect(problems({ ssl_cert, ssl_key: `${parameters}${otherKey}` })).toEqual({
    "/ssl_key": "this is not the key of ssl_cert: give the two that belong together",
  });
});

test("a key that is none, is damaged, or is encrypted", () => {
  const problem = (ssl_key: string) => problems({ ...clientCertificate, ssl_key })["/ssl_key"];
  expect(problem("planted")).toStartWith("expected a private key as PEM text");
  expect(problem(testServerCertificate)).toStartWith("expected a private key as PEM text");
  expect(problem(testServerKey.replace("MIGH", "MIGA"))).toStartWith("the key cannot be read");
  const own = { cipher: "aes-128-cbc", passphrase: "planted" };
  for (const type of ["pkcs8", "sec1"] as const) {
    const encrypted = privateKey.export({ type, format: "pem", ...own }).toString();
    expect(problem(encrypted)).toStartWith("the key is encrypted, which is not supported: give it without");
  }
});

test("a connector is checked with the secrets that it keeps, at either end", () => {
  const from = (connection: object) => sourceSample({ connection: connectionSample(connection) });
  const stored = resolveConnector(requestSample({ source: from(clientCertificate) }), {
    id: "a",
    stored: null,
  });
  const replace = (connection: object) => () =>
    resolveConnector(requestSample({ source: from(connection) }), { id: "a", stored, replaces: true });
  expect(replace({ ssl_cert: "***", ssl_key: "***" })().source).toEqual(stored.source);
  const refused = (key: string) =>
    expect.objectContaining({
      code: "invalid_request",
      violations: [{ path: `/source/postgres/connection/${key}`, message: expect.any(String) }],
    });
  expect(replace({ ssl_cert: "***" })).toThrow(refused("ssl_key"));
  expect(replace({ ssl_cert: "***", ssl_key: otherKey })).toThrow(refused("ssl_key"));
  expect(replace({ ssl_root_cert: "planted" })).toThrow(refused("ssl_root_cert"));
  const sink = { postgres: { connection: connectionSample({ ssl_root_cert: "planted" }) } };
  expect(() => resolveConnector(requestSample({ sink }), { id: "a", stored: null })).toThrow(
    expect.objectContaining({
      violations: [expect.objectContaining({ path: "/sink/postgres/connection/ssl_root_cert" })],
    }),
  );
});
