// Secrets that are missing are told with whatever else is wrong.

import { beforeEach, expect, test } from "bun:test";
import { type ApiClient, apiClient, connection, connector, source } from "./api-client.ts";

let api: ApiClient;
beforeEach(() => {
  api = apiClient();
});

const { host: _, password: __, ...lacking } = connection();
const wrong = connector({ source: source({ connection: lacking }) });
const both = ["/source/postgres/connection/host", "/source/postgres/connection/password"];
const pathsOf = async (path: string, body: object) => {
  const { status, body: problem } = await api.call("POST", path, body);
  expect({ status, code: problem.code }).toEqual({ status: 422, code: "invalid_request" });
  return problem.errors.map((error: { path: string }) => error.path);
};

test("they are listed with it where nothing stored can fill them", async () => {
  const ofSource = { source: wrong.source };
  expect(await pathsOf("/api/v1/connectors", wrong)).toEqual(both);
  expect(await pathsOf("/api/v1/connectors/new", wrong)).toEqual(both);
  expect(await pathsOf("/api/v1/debug/connector", wrong)).toEqual(both);
  expect(await pathsOf("/api/v1/catalog/source", ofSource)).toEqual(both);
  expect(await pathsOf("/api/v1/validate/source", ofSource)).toEqual(both);
  const sink = { webhook: { url: "http://x.example", auth: { bearer: {} }, compression: "Zip" } };
  expect(await pathsOf("/api/v1/validate/sink", { sink })).toEqual([
    "/sink/webhook/compression",
    "/sink/webhook/auth/bearer/token",
  ]);
  const hidden = connector({ source: source({ connection: { ...lacking, password: "***" } }) });
  expect(await pathsOf("/api/v1/connectors", hidden)).toEqual(both);
});

test("they are not listed where a stored connector may have them", async () => {
  await api.call("POST", "/api/v1/connectors/mine", connector());
  const [host] = both as [string];
  expect(await pathsOf("/api/v1/connectors/mine", wrong)).toEqual([host]);
  expect(await pathsOf("/api/v1/connectors/new?clone_from=mine", wrong)).toEqual([host]);
  expect(await pathsOf("/api/v1/debug/connector?connector_id=mine", wrong)).toEqual([host]);
  expect(await pathsOf("/api/v1/validate/source?connector_id=mine", { source: wrong.source })).toEqual([
    host,
  ]);
});

test("a broken part does not hide those of the others", async () => {
  const body = { ...wrong, sink: { kafka: { connection: { config: { global_properties: 5 } } } } };
  const paths = await pathsOf("/api/v1/connectors", body);
  expect(paths).toContain("/sink/kafka/connection/config/global_properties");
  expect(paths).toContain(both[1]);
  for (const part of [null, 5, [], "x"])
    expect(await pathsOf("/api/v1/connectors", { sink: part })).toContain("/sink");
});
