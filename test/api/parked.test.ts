// What is parked, over HTTP: who may read bodies, and who is named in the record of a discard.

import { expect, test } from "bun:test";
import { callerName } from "../../src/api/guards/caller-name.ts";
import { createApp } from "../../src/app.ts";
import { memoryServices } from "./memory-services.ts";

const token = "a-token-that-may-write";
const readToken = "a-token-that-may-read";
const authentication = {
  basic: { username: "ann", password: "secret" },
  bearer: { token },
  readOnly: { basic: null, bearer: { token: readToken } },
};
const id = "01a20593-6296-769f-bd72-783bcd281407";

function basic(pair: string): string {
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}

test("credentials that may only read get no bodies, and move nothing", async () => {
  const services = memoryServices();
  const app = createApp({ services, authentication, acceptsHost: null, version: "0", reportFault: () => "" });
  const call = async (path: string, bearer: string, method = "GET") => {
    const url = `http://localhost/api/v1/connectors/none/parked/${path}`;
    return (await app.handle(new Request(url, { method, headers: { authorization: `Bearer ${bearer}` } })))
      .status;
  };
  expect(await call(`${id}?body=1`, readToken)).toBe(403);
  expect(await call(`${id}?body=0`, readToken)).toBe(404);
  expect(await call(`${id}?body=1`, token)).toBe(404);
  expect(await call(`${id}/discard`, readToken, "POST")).toBe(403);
  expect(await call("no-id", token)).toBe(404);
});

test("a caller is known by the name of the credential", () => {
  const nameOf = callerName(authentication);
  const request = (authorization?: string) =>
    new Request("http://localhost/", authorization ? { headers: { authorization } } : {});
  expect(nameOf(request(basic("ann:secret")))).toBe("ann");
  expect(nameOf(request(`Bearer ${token}`))).toBe("API token");
  const open = callerName({ basic: null, bearer: null });
  for (const header of [undefined, basic("mallory:x"), "Bearer x"])
    expect(open(request(header))).toBe("anonymous");
});

test("a time or a name that cannot be is refused, and never asked of the state", async () => {
  const services = memoryServices();
  const app = createApp({
    services,
    authentication: { basic: null, bearer: null },
    acceptsHost: null,
    version: "0",
    reportFault: () => "",
  });
  const base = "http://localhost/api/v1/connectors/none/parked";
  const status = async (path: string, body?: object) => {
    const init = body && {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    };
    return (await app.handle(new Request(base + path, init ?? {}))).status;
  };
  const times = [
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+12:00",
    "2026-13-01T",
    "2026-01-31T12:00:00",
    "2026-02-31T00:00:00Z",
    "2026-02-28T24:30:00Z",
  ];
  for (const before of times) {
    expect(await status("/discard", { before })).toBe(422);
    expect(await status(`?before=${encodeURIComponent(before)}`)).toBe(422);
  }
  for (const field of ["schema", "table"]) {
    expect(await status("/retry", { [field]: "a\0b" })).toBe(422);
    expect(await status(`?${field}=a%00b`)).toBe(400);
  }
  expect(await status("/discard", { before: "9999-12-31T23:59:59Z" })).toBe(404);
  expect(await status("?table=a%0Ab")).toBe(404);
});
