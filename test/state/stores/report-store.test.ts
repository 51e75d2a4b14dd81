// Reports of runs: the newest of the present holder is what others read.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { OpenDatabase } from "../../../src/state/database.ts";
import { Cipher } from "../../../src/state/secrets/encryption.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { ReportStore } from "../../../src/state/stores/report-store.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
let open: OpenDatabase;
let store: ReportStore;
let connectors: ConnectorStore;
const [one, other, reader] = ["1", "2", "3"].map((digit) => crypto.randomUUID().replace(/^./, digit)) as [
  string,
  string,
  string,
];

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/postgres`, {
    instance: crypto.randomUUID(),
  });
  store = new ReportStore(open.database);
  connectors = new ConnectorStore(open.database, new Cipher(Buffer.alloc(32, 7)));
});

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

/** A connector under a term. */
async function given(connectorId: string, term: number): Promise<void> {
  if (!(await connectors.find(connectorId))) await connectors.insert(storedConnector(connectorId));
  await server.query(`update millrace.leases set term = ${term} where connector_id = '${connectorId}'`);
}

const report = (connectorId: string, term: number, version: number, body = `"\\u0000 ${version}"`) => ({
  connectorId,
  term,
  version,
  body,
  kind: "status" as const,
});

test("others read what is new of each holder, and a holder nothing of its own", async () => {
  await given("a", 1);
  await given("b", 1);
  await given("c", 1);
  await store.save(one, [report("a", 1, 1), report("b", 1, 2)]);
  await store.save(other, [report("c", 1, 1)]);
  const all = await store.since(reader, new Map());
  expect(all).toEqual([
    { connectorId: "a", holder: one, version: 1, body: report("a", 1, 1).body },
    { connectorId: "b", holder: one, version: 2, body: report("b", 1, 2).body },
    { connectorId: "c", holder: other, version: 1, body: report("c", 1, 1).body },
  ]);
  expect(await store.since(one, new Map())).toEqual(all.slice(2));
  expect(await store.since(reader, new Map([[one, 1]]))).toEqual(all.slice(1));
  await store.save(one, [report("a", 1, 3, "newer")]);
  expect(
    (await store.since(reader, new Map([...[[one, 2] as const], [other, 1]]))).map(({ body }) => body),
  ).toEqual(["newer"]);
});

test("a report under an older term is dropped, and one that was overtaken is not read", async () => {
  await given("d", 4);
  await store.save(one, [report("d", 4, 10, "of the fourth")]);
  await given("d", 5);
  const ofD = async () =>
    (await store.since(reader, new Map())).filter(({ connectorId }) => connectorId === "d");
  expect(await ofD()).toEqual([]);
  await store.save(other, [report("d", 5, 2, "of the fifth")]);
  await store.save(one, [report("d", 4, 11, "late"), report("gone", 1, 12)]);
  expect((await ofD()).map(({ body }) => body)).toEqual(["of the fifth"]);
});

test("tables are read by themselves", async () => {
  await given("e", 1);
  expect(await store.tables("e")).toBeNull();
  await store.save(one, [{ ...report("e", 1, 20, "[]"), kind: "tables" }, report("e", 1, 21)]);
  expect(await store.tables("e")).toBe("[]");
  await connectors.remove("e", null);
  expect(await store.tables("e")).toBeNull();
});
