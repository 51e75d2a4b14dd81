// A declarative client at a real state: it sends connectors, reads them, and sends them again. Nothing differs, and
// nothing happens.

import { expect, test } from "bun:test";
import fc from "fast-check";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import { redactConnector } from "../../src/connector/secrets.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { randomConnector } from "../support/loads/random-connector.ts";
import { isWholeMatrix } from "../support/matrix.ts";
import { givenDifferences } from "../support/oracles/given-differences.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../support/servers/tls-certificates.ts";
import { waitFor } from "../support/wait-for.ts";

const ids = Array.from({ length: isWholeMatrix ? 300 : 100 }, (_, index) => `c${index}`);
const bodies = ids.map((id) => fc.sample(randomConnector(id), 1)[0] as unknown as ConnectorRequest);

test(`${ids.length} connectors are read as they were sent, and sent back they stay undisturbed`, async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  for (const body of bodies) expect(await connectors.createOrReplace(body.id, body, null)).toBe("created");
  const before = await waitFor("all of them to be at rest", async () => {
    const all = await connectors.list();
    return all.every(({ status }) => status.state.disabled) ? all : null;
  });
  for (const [index, { connector }] of before.entries())
    expect(givenDifferences(bodies[index], redactConnector(connector))).toEqual([]);
  await runtime.board.flush();
  const histories = await Promise.all(ids.map((id) => connectors.history(id)));
  for (const { connector } of before) {
    const { id } = connector;
    expect(await connectors.createOrReplace(id, redactConnector(connector), null)).toBe("replaced");
    await connectors.patch(id, {});
  }
  for (const body of bodies) await connectors.createOrReplace(body.id, body, null);
  expect(await connectors.list()).toEqual(before);
  expect(await Promise.all(ids.map((id) => connectors.history(id)))).toEqual(histories);
}, 120_000);

test("a default that is written down, or no longer is, is stored without a new run", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const body = { ...sampleRequest(), disabled: true };
  await connectors.createOrReplace("orders", body, null);
  const { run_id } = await connectors.get("orders");
  await connectors.createOrReplace("orders", { ...body, limits: { cdc: {} } }, null);
  expect(await connectors.get("orders")).toMatchObject({
    run_id,
    connector: { limits: { cdc: { flush_interval_ms: 0, max_buffer_rows: 0 } } },
  });
  await connectors.createOrReplace("orders", body, null);
  expect(await connectors.get("orders")).toMatchObject({ run_id, connector: { limits: null } });
});

test("the history says which settings a replacement took out", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const plain = { ...sampleRequest(), disabled: true };
  const { postgres } = plain.source;
  const salted = { algorithm: "Sha256" as const, salt: "secret-salt" };
  const tables = (hash: object) => [{ name: "people", columns: [{ name: "mail", ...hash }] }];
  const source = (hash: object, rest: object = {}) => ({
    postgres: { ...postgres!, catalog: { schemas: [{ name: "public", tables: tables(hash) }], ...rest } },
  });
  const url = "https://hooks.example.com";
  const rich: ConnectorRequest = {
    ...plain,
    source: source({ hash: {} }, { column_hashing: salted }),
    sink: { webhook: { url, signing: { secret: `whsec_${"A".repeat(32)}` }, batch: { max_batch_size: 5 } } },
    limits: { cdc: { flush_interval_ms: 5 } },
  };
  const removals = async () => {
    await runtime.board.flush();
    const reasons = (await connectors.history("orders")).map(({ status }) => status.status.warning?.reason);
    return reasons.filter((reason) => reason !== undefined);
  };
  await connectors.createOrReplace("orders", rich, null);
  expect(await removals()).toEqual([]);
  await connectors.createOrReplace(
    "orders",
    { ...plain, source: source({}), sink: { webhook: { url } } },
    null,
  );
  const [reason, ...others] = await removals();
  expect(others).toEqual([]);
  for (const path of [
    "limits",
    "sink.webhook.signing",
    "sink.webhook.batch",
    "source.postgres.catalog.column_hashing",
    "source.postgres.catalog.schemas[public].tables[people].columns[mail].hash",
  ])
    expect(reason).toContain(path);
  expect(reason).not.toContain("connection");
  await connectors.createOrReplace("orders", rich, null);
  await connectors.createOrReplace("orders", { ...rich, source: plain.source }, null);
  expect((await removals()).at(-1)).toMatch(/catalog, source\.postgres\.catalog\.column_hashing\./);
  expect((await connectors.get("orders")).status.status.warning).toBeUndefined();
});

test("a replacement without an optional secret clears it, and the history says so", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors } = runtime;
  const body = { ...sampleRequest(), disabled: true };
  const { postgres } = body.source;
  const { password: _, ...open } = postgres!.connection;
  const source = (connection: object) => ({
    postgres: { ...postgres!, connection: { ...open, ...connection } },
  });
  const tls = { ssl_root_cert: testRootCertificate, ssl_cert: testServerCertificate, ssl_key: testServerKey };
  await connectors.createOrReplace(
    "orders",
    { ...body, source: source({ password: "secret-1", ...tls }) },
    null,
  );
  const hidden = { ssl_root_cert: "***", ssl_cert: "***", ssl_key: "***" };
  await connectors.createOrReplace("orders", { ...body, source: source(hidden) }, null);
  const stored = async () =>
    (await runtime.state.connectors.get("orders")).config.source.postgres?.connection;
  expect(await stored()).toMatchObject({ password: "secret-1", ...tls });
  await connectors.createOrReplace("orders", { ...body, source: source({}) }, null);
  expect(await stored()).toMatchObject({ password: "secret-1" });
  for (const key of Object.keys(tls)) expect(await stored()).not.toHaveProperty(key);
  const last = (await connectors.history("orders")).find(({ status }) => status.status.warning);
  expect(last?.status.status.warning?.reason).toContain("source.postgres.connection.ssl_root_cert");
  // Another connector's secrets are filled all the same.
  await connectors.createOrReplace(
    "first",
    { ...body, source: source({ password: "secret-2", ...tls }) },
    null,
  );
  await connectors.createOrReplace("orders", { ...body, source: source({}) }, "first");
  expect(await stored()).toMatchObject({ password: "secret-2", ...tls });
});
