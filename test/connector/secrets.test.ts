import { expect, test } from "bun:test";
import { redactConnector } from "../../src/connector/secrets.ts";
import { configSample, connectionSample, sourceSample, webhookSinkSample } from "./samples.ts";

const ssh = (auth: object) => ({ ssh: { bastion_host: "b", user: "u", auth } });

const pem = (body: string) => `-----BEGIN RSA PRIVATE KEY-----\n${body}\n-----END RSA PRIVATE KEY-----\n`;

const everySecret = [
  configSample({
    source: sourceSample({
      catalog: { column_hashing: { salt: "s3cret-salt" } },
      connection: connectionSample({
        password: "s3cret-1",
        ssl_cert: "s3cret-2",
        ssl_key: "s3cret-3",
        ssl_root_cert: "s3cret-4",
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
      headers: { static: [{ name: "X-Env", value: "s3cret-9" }] },
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
