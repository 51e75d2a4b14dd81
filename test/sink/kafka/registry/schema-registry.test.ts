// The registry's client against a registry: ids, subjects, credentials, TLS, and whatever it answers instead.

import { expect, test } from "bun:test";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import type { SchemaRegistry as RegistryConfig } from "../../../../src/connector/config/kafka/kafka-format.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { type AvroSerde, SchemaRegistry } from "../../../../src/sink/kafka/registry/schema-registry.ts";
import { SchemaRegistryDouble } from "../../../support/rows/schema-registry.ts";
import { CertificateAuthority } from "../../../support/servers/certificate-authority.ts";
import { rawReceiver } from "../../../support/webhook/raw-receiver.ts";

const record = (name: string, ...fields: object[]) => ({
  text: JSON.stringify({ type: "record", name, namespace: "shop", fields }),
  name: `shop.${name}`,
});
const id = { name: "id", type: "long" };
const orders = record("Value", id);

function client(
  registry: { readonly url: string },
  connection: Partial<RegistryConfig> = {},
  options: Partial<AvroSerde> = {},
  timeoutMs?: number,
) {
  return new SchemaRegistry(
    {
      kind: "avro",
      autoRegister: true,
      subjectNameStrategy: "TopicName",
      ...options,
      registry: { url: registry.url, ...connection },
    },
    new AddressResolver("default"),
    timeoutMs,
  );
}

async function failure(promise: Promise<unknown>): Promise<MillraceError> {
  try {
    await promise;
  } catch (error) {
    return error as MillraceError;
  }
  throw new Error("it did not fail");
}

test("a schema is registered once, and has one id under all subjects", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry);
  const ids = await Promise.all([1, 2, 3].map(() => asking.idOf("orders", "value", orders)));
  expect(new Set(ids).size).toBe(1);
  expect(await asking.idOf("orders", "value", orders)).toBe(ids[0]!);
  expect(registry.requests.length).toBe(1);
  expect(await asking.idOf("orders", "key", orders)).toBe(ids[0]!);
  expect(
    await asking.idOf("orders", "value", record("Value", id, { ...id, name: "b", default: 0 })),
  ).not.toBe(ids[0]!);
  expect([...registry.subjects.keys()]).toEqual(["orders-value", "orders-key"]);
  const [first] = registry.requests;
  expect(first).toMatchObject({ method: "POST", path: "/subjects/orders-value/versions" });
  expect(first!.headers).toMatchObject({
    "content-type": "application/vnd.schemaregistry.v1+json",
  });
  expect(first!.headers).not.toHaveProperty("authorization");
  expect(JSON.parse(first!.body)).toEqual({ schema: orders.text, schemaType: "AVRO" });
});

test.each([
  ["TopicName", "my topic-value"],
  ["RecordName", "shop.Value"],
  ["TopicRecordName", "my topic-shop.Value"],
] as const)("under %s the subject is %s", async (subjectNameStrategy, subject) => {
  await using registry = new SchemaRegistryDouble();
  await client(registry, {}, { subjectNameStrategy }).idOf("my topic", "value", orders);
  expect([...registry.subjects.keys()]).toEqual([subject]);
});

test("without auto_register a schema must be there", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry, {}, { autoRegister: false });
  const missing = await failure(asking.idOf("orders", "value", orders));
  expect(missing).toMatchObject({ code: "sink_schema_rejected", retry: "permanent" });
  expect(missing.message).toContain('subject "orders-value" is not there');
  expect(missing.message).toContain("It said: “Subject 'orders-value' not found.”");
  expect(registry.subjects.size).toBe(0);
  const there = await client(registry).idOf("orders", "value", orders);
  expect(await asking.idOf("orders", "value", orders)).toBe(there);
  expect(await failure(asking.idOf("orders", "value", record("Value")))).toMatchObject({
    code: "sink_schema_rejected",
  });
});

test("a schema that does not follow the last one is refused, with the registry's words", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry);
  await asking.idOf("orders", "value", orders);
  const clash = await failure(asking.idOf("orders", "value", record("Value", id, { ...id, name: "more" })));
  expect(clash).toMatchObject({ code: "sink_schema_rejected", retry: "permanent" });
  expect(clash.message).toContain('answered 409: the schema of subject "orders-value" is not compatible');
  expect(clash.message).toContain("It said: “Schema being registered is incompatible: ");
  const invalid = await failure(asking.idOf("other", "value", { text: '{"type":"x"}', name: "x" }));
  expect(invalid).toMatchObject({ code: "sink_schema_rejected", retry: "permanent" });
  expect(invalid.message).toContain("answered 422");
});

test("the user and password are sent, and are in no message", async () => {
  const user = { username: "anne", password: "S3cret-of-anne" };
  await using registry = new SchemaRegistryDouble({ user });
  expect(await client(registry, user).idOf("orders", "value", orders)).toBe(1);
  for (const connection of [{}, { ...user, password: "wrong" }]) {
    const refused = await failure(client(registry, connection).idOf("orders", "value", orders));
    expect(refused).toMatchObject({ code: "sink_authentication_failed", retry: "permanent" });
    expect(refused.message).toContain("check user name and password");
  }
  const credentials = Buffer.from(`anne:${user.password}`).toString("base64");
  registry.script = () =>
    Response.json({ error_code: 1, message: `${user.password} ${credentials}` }, { status: 403 });
  const told = await failure(client(registry, user).idOf("orders", "value", orders));
  expect(told).toMatchObject({ code: "sink_authentication_failed" });
  expect(told.message).toContain("It said: “*** ***”");
  registry.mode = "slow";
  registry.script = () => undefined;
  const late = await failure(client(registry, user, {}, 50).idOf("orders", "value", orders));
  expect(late.message).not.toContain("S3cret");
});

test("what may pass is for the caller to try again", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry, {}, {}, 200);
  for (const mode of ["slow", "failing", "garbage", "endless"] as const) {
    registry.mode = mode;
    const error = await failure(asking.idOf("orders", "value", orders));
    expect(error).toMatchObject({ code: "sink_unreachable", retry: "transient" });
    expect(error.message).toContain(`The schema registry localhost:${registry.port} `);
  }
  for (const status of [408, 425, 429, 502, 503]) {
    registry.script = () => new Response("busy", { status });
    expect((await failure(asking.idOf("orders", "value", orders))).code).toBe("sink_unreachable");
  }
  for (const body of [
    "",
    "{}",
    '{"id":"1"}',
    '{"id":-1}',
    '{"id":1.5}',
    '{"id":2147483648}',
    "[1]",
    "null",
  ]) {
    registry.script = () => new Response(body);
    expect((await failure(asking.idOf("orders", "value", orders))).code).toBe("sink_unreachable");
  }
  registry.script = () => undefined;
  registry.mode = "well";
  expect(await asking.idOf("orders", "value", orders)).toBe(1);
});

test("a page of what stands before the registry is no verdict on a schema", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry);
  for (const status of [400, 403, 404, 405, 409, 422]) {
    for (const body of ["<html>Nothing is here</html>", "", '{"message":"no Route matched"}', "[404]"]) {
      registry.script = () => new Response(body, { status });
      for (const ask of [() => asking.idOf("orders", "value", orders), () => asking.check()]) {
        const error = await failure(ask());
        expect(error).toMatchObject({ code: "sink_unreachable", retry: "transient" });
        expect(error.message).toContain(`answered ${status}: that is no answer of a schema registry`);
      }
    }
  }
  for (const [status, error_code, code] of [
    [404, 40_403, "sink_schema_rejected"],
    [403, 40_301, "sink_authentication_failed"],
  ] as const) {
    registry.script = () => Response.json({ error_code, message: "its own" }, { status });
    expect((await failure(asking.idOf("orders", "value", orders))).code).toBe(code);
  }
  registry.script = () => new Response("<html>Unauthorized</html>", { status: 401 });
  const stranger = await failure(asking.idOf("orders", "value", orders));
  expect(stranger).toMatchObject({ code: "sink_authentication_failed", retry: "permanent" });
});

test("a registry that is away, and comes back", async () => {
  const away = new SchemaRegistryDouble();
  const asking = client(away);
  const { port } = away;
  await away[Symbol.asyncDispose]();
  const error = await failure(asking.idOf("orders", "value", orders));
  expect(error).toMatchObject({ code: "sink_unreachable", retry: "transient" });
  expect(error.message).toMatch(/cannot be reached: nothing listens at localhost:\d+ \(ECONNREFUSED\)/);
  await using _back = new SchemaRegistryDouble({ port });
  expect(await asking.idOf("orders", "value", orders)).toBe(1);
});

test("a redirect is not followed, and a refusal is told within bounds", async () => {
  await using registry = new SchemaRegistryDouble();
  const asking = client(registry);
  registry.script = () => Response.redirect(`${registry.url}/elsewhere`, 307);
  const moved = await failure(asking.idOf("orders", "value", orders));
  expect(moved).toMatchObject({ code: "sink_unreachable", retry: "transient" });
  expect(moved.message).toContain("redirects are not followed");
  expect(registry.requests.length).toBe(1);
  const error_code = 42_201;
  const message = `line\nof \u202e“words” ${"x".repeat(100_000)}`;
  registry.script = () => Response.json({ error_code, message }, { status: 400 });
  const long = await failure(asking.idOf("orders", "value", orders));
  expect(long.message.length).toBeLessThan(1000);
  registry.script = () => Response.json({ error_code, message: message.slice(0, 900) }, { status: 400 });
  const words = await failure(asking.idOf("orders", "value", orders));
  expect(words.message).toContain('It said: “line of "words" xxx');
  expect(words.message.length).toBeLessThan(1000);
});

test("a signal ends a request with its reason", async () => {
  await using registry = new SchemaRegistryDouble();
  registry.mode = "slow";
  const stop = new AbortController();
  const asked = client(registry).idOf("orders", "value", orders, stop.signal);
  setTimeout(() => stop.abort(new Error("stopped")), 20);
  expect((await failure(asked)).message).toBe("stopped");
  registry.mode = "well";
  expect((await failure(client(registry).idOf("o", "value", orders, stop.signal))).message).toBe("stopped");
});

test("check says whether it answers, and lets the user in", async () => {
  const user = { username: "anne", password: "secret" };
  await using registry = new SchemaRegistryDouble({ user });
  await client(registry, user).check();
  expect(await failure(client(registry).check())).toMatchObject({ code: "sink_authentication_failed" });
  registry.mode = "garbage";
  expect(await failure(client(registry, user).check())).toMatchObject({ code: "sink_unreachable" });
  const elsewhere = { url: `${registry.url}/api/` };
  registry.mode = "well";
  expect(await failure(client(elsewhere, user).check())).toMatchObject({ code: "sink_schema_rejected" });
  expect(registry.requests.at(-1)!.path).toBe("/api/subjects");
});

test("TLS: its own authority, a client's certificate, and neither", async () => {
  const authority = new CertificateAuthority("registry root");
  const stranger = new CertificateAuthority("another root");
  const server = authority.issue({ commonName: "localhost", dnsName: "localhost" });
  const anne = authority.issue({ commonName: "anne" });
  const eve = stranger.issue({ commonName: "eve" });
  const tls = { cert: server.certificate, key: server.key };
  await using registry = new SchemaRegistryDouble({ tls });
  await using strict = new SchemaRegistryDouble({
    tls: { ...tls, ca: authority.root, requestCert: true, rejectUnauthorized: true },
  });
  const ssl_ca = authority.root;
  const own = { ssl_ca, ssl_certificate: anne.certificate, ssl_key: anne.key };
  expect(await client(registry, { ssl_ca }).idOf("orders", "value", orders)).toBe(1);
  expect(await client(strict, own).idOf("orders", "value", orders)).toBe(1);
  const connections: [SchemaRegistryDouble, Partial<RegistryConfig>][] = [
    [registry, {}],
    [registry, { ssl_ca: stranger.root }],
    [strict, { ssl_ca }],
    [strict, { ...own, ssl_certificate: eve.certificate, ssl_key: eve.key }],
  ];
  for (const [to, connection] of connections) {
    const error = await failure(client(to, connection).idOf("orders", "value", orders));
    expect(error.code).toBe("sink_unreachable");
  }
  expect((await failure(client(registry, {}).check())).message).toContain("Check ssl_ca");
});

test("nothing is sent to a cloud's metadata service", async () => {
  const refused = await failure(client({ url: "http://169.254.169.254" }).idOf("t", "value", orders));
  expect(refused).toMatchObject({ code: "kafka_rejected" });
  expect(refused.message).toContain("schema registry 169.254.169.254: 169.254.169.254 is link-local");
});

test("a request goes to the address that was checked, and not to one that the name has a moment later", async () => {
  await using registry = new SchemaRegistryDouble();
  const asked: string[] = [];
  const resolver = new AddressResolver("default", async (host) => {
    asked.push(host);
    return ["127.0.0.1"];
  });
  const serde = { kind: "avro", autoRegister: true, subjectNameStrategy: "TopicName" } as const;
  // No other resolver knows this name.
  const url = `http://registry.invalid:${registry.port}`;
  expect(await new SchemaRegistry({ ...serde, registry: { url } }, resolver).idOf("t", "value", orders)).toBe(
    1,
  );
  expect(asked).toEqual(["registry.invalid"]);
  expect(registry.requests[0]!.headers.host).toBe(`registry.invalid:${registry.port}`);
});

test("an answer that repeats a long schema, and one that explains a refusal at length, are read wholly", async () => {
  await using registry = new SchemaRegistryDouble();
  const long = record("Value", { ...id, doc: "x".repeat(20_000) });
  const known = await client(registry).idOf("orders", "value", long);
  expect(await client(registry, {}, { autoRegister: false }).idOf("orders", "value", long)).toBe(known);
  registry.script = () =>
    Response.json({ error_code: 42_201, message: `no: ${"y".repeat(20_000)}` }, { status: 422 });
  expect((await failure(client(registry).idOf("orders", "value", long))).message).toContain(
    "It said: “no: yyy",
  );
});

test("so is one that repeats the schema of a very wide table", async () => {
  await using registry = new SchemaRegistryDouble();
  const columns = Array.from({ length: 1_600 }, (_, i) => ({ ...id, name: `c${i}`, doc: "x".repeat(200) }));
  const wide = record("Value", ...columns);
  const known = await client(registry).idOf("orders", "value", wide);
  expect(await client(registry, {}, { autoRegister: false }).idOf("orders", "value", wide)).toBe(known);
});

test.each([
  ["too long", `{"schema":"${"x".repeat(5 << 20)}","id":1}`],
  ["broken off", null],
])("an answer that is %s is told as that, and not as one of something else", async (_, body) => {
  const receiver = await rawReceiver(({ socket }) => {
    const text = body ?? '{"schema":"x';
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${body?.length ?? 100}\r\n\r\n${text}`);
  });
  await using _receiver = receiver;
  const asking = client({ url: `http://127.0.0.1:${receiver.port}` }, {}, { autoRegister: false });
  const error = await failure(asking.idOf("orders", "value", orders));
  expect(error).toMatchObject({ code: "sink_unreachable", retry: "transient" });
  expect(error.message).toContain("answered 200: the answer broke off, or is too long");
});
