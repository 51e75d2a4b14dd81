import { expect, test } from "bun:test";
import { looksLikeCredential } from "../../src/connector/config/webhook-headers.ts";
import { redactConnector } from "../../src/connector/secrets.ts";
import { testRootCertificate } from "../support/servers/tls-certificates.ts";
import {
  clientCertificate,
  configSample,
  connectionSample,
  sourceSample,
  webhookSinkSample,
} from "./samples.ts";

const ssh = (auth: object) => ({ ssh: { bastion_host: "b", user: "u", auth } });

const pem = (body: string) => `-----BEGIN RSA PRIVATE KEY-----\n${body}\n-----END RSA PRIVATE KEY-----\n`;

const everySecret = [
  configSample({
    source: sourceSample({
      catalog: { column_hashing: { salt: "s3cret-salt" } },
      connection: connectionSample({
        password: "s3cret-1",
        // Text before the first line of PEM is allowed.
        ssl_cert: `s3cret-2\n${clientCertificate.ssl_cert}`,
        ssl_key: `s3cret-3\n${clientCertificate.ssl_key}`,
        ssl_root_cert: `s3cret-4\n${testRootCertificate}`,
        tunnel: ssh({ generated_key: { private_key: pem("s3cret-5"), public_key: "public" } }),
      }),
    }),
    sink: {
      postgres: {
        connection: connectionSample({
          password: "s3cret-6",
          tunnel: ssh({ bring_your_own_key: { private_key: pem("s3cret-7") } }),
        }),
      },
    },
  }),
  configSample({
    source: sourceSample({ connection: connectionSample({ password: "s3cret-1" }) }),
    sink: webhookSinkSample({
      auth: { header: { name: "X-Key", value: "s3cret-8" } },
      headers: {
        static: [
          { name: "X-Api-Key", value: "s3cret-9" },
          { name: "X-Env", value: "prod" },
        ],
      },
      signing: { secret: "whsec_s3cret0000000000000000000000000000" },
    }),
  }),
  configSample({
    source: sourceSample({ connection: connectionSample({ password: "s3cret-1" }) }),
    sink: webhookSinkSample({ auth: { basic: { username: "u", password: "s3cret-10" } } }),
  }),
  configSample({
    source: sourceSample({ connection: connectionSample({ password: "s3cret-1" }) }),
    sink: webhookSinkSample({ auth: { bearer: { token: "s3cret-11" } } }),
  }),
];

test("redaction removes every secret, and changes nothing else", () => {
  for (const config of everySecret) {
    const before = JSON.stringify(config);
    const shown = redactConnector(config);
    expect(JSON.stringify(config)).toBe(before);
    expect(JSON.stringify(shown)).toBe(before.replaceAll(/"[^"]*s3cret[^"]*"/g, '"***"'));
    expect(shown.source.postgres?.connection).toMatchObject({ host: "db.internal", password: "***" });
  }
});

test("unset secrets stay unset", () => {
  expect(redactConnector(configSample()).source.postgres?.connection).not.toHaveProperty("ssl_cert");
});

test.each([
  ...[
    "Authorization",
    "Cookie",
    "x-api-key",
    "X-Token",
    "Client-Secret",
    "X-Auth",
    "Password",
    "X-Signature",
  ].map((name) => [name, "plain"]),
  ...["Bearer abc", "basic YTpi", "Token abc", "eyJhbGciOiJIUzI1NiJ9.e30.x", "whsec_0123456789abcdef"].map(
    (value) => ["X-Env", value],
  ),
  ...["api_key=abc", "https://u:p@host/"].map((value) => ["X-Env", value]),
])("the value of a static header %s: %s is hidden", (name, value) => {
  expect(looksLikeCredential(name, value)).toBe(true);
});

test.each([
  ["X-Env", "prod"],
  ["X-Tenant", "5e1c7a52-7a0b-4f5e-9d5c-0f6f0f2b7a10"],
  ["Accept-Language", "en;q=0.8"],
  ["X-Team", "basic"],
  ["X-Link", "https://host:8080/path"],
  ["X-Empty", ""],
])("the value of a static header %s: %s is shown", (name, value) => {
  expect(looksLikeCredential(name, value)).toBe(false);
});
