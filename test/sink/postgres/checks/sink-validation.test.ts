import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import type { PostgresSinkConfig } from "../../../../src/connector/config/sink-config.ts";
import { ValidateEventSchema } from "../../../../src/connector/validation.ts";
import { validatePostgresSink } from "../../../../src/sink/postgres/checks/sink-validation.ts";
import { fullConnection, postgresSink } from "../../../support/api/connector-config.ts";
import { findTest, outline } from "../../../support/api/validation-events.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

async function validate(sink: PostgresSinkConfig) {
  const events = await validatePostgresSink(sink, AbortSignal.timeout(30_000));
  for (const event of events) expect(Value.Check(ValidateEventSchema, event)).toBe(true);
  return events;
}

const later = [
  "Permission Create",
  "Permission Temporary",
  "Permission Target schema",
  "Permission Bookkeeping",
  "Permission Triggers",
  "Config Writable",
  "Config Encoding",
  "Config Write",
];

test("a sink that is ready passes every test, and nothing is left in it", async () => {
  const before = await server.query("select nspname from pg_namespace order by 1");
  expect(outline(await validate(postgresSink(server.connection())))).toEqual([
    "start",
    "DnsResolution: Success",
    "Reachability: Success",
    "TLS: Warn",
    "Connection: Success",
    "Authentication: Success",
    "ServerInfo: Success",
    ...later.map((name) => `${name}: Success`),
    "success",
  ]);
  expect(await server.query("select nspname from pg_namespace order by 1")).toEqual(before);
});

test("a server that is not there skips the rest", async () => {
  const sink = postgresSink(server.connection(), {
    connection: fullConnection(server.connection(), { port: 1 }),
  });
  const events = outline(await validate(sink));
  expect(events[2]).toBe("Reachability: Failed");
  expect(events.slice(7, -1)).toEqual(later.map((name) => `${name}: Skipped`));
});

test("an encoding that lacks characters is warned of", async () => {
  await server.query(
    "create database latin template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'",
  );
  const found = findTest(await validate(postgresSink(server.connection("latin"))), "Config Encoding");
  expect(found.status).toEqual({ Warn: {} });
  expect(found.message).toContain("LATIN1");
});

describe("privileges", () => {
  test("are told one after the other, each with the SQL that mends it", async () => {
    await server.createDatabase('Odd "base');
    await server.query(
      `create role "Weak ""one" login; revoke all on database "Odd ""base" from public;
       grant connect on database "Odd ""base" to "Weak ""one"; create schema "tar get"`,
      'Odd "base',
    );
    const connection = fullConnection(server.connection('Odd "base'), { user: 'Weak "one' });
    const sink = postgresSink(server.connection(), { connection, target_schema: "tar get" });
    const mend = async (name: string, expected: string[]) => {
      const events = await validate(sink);
      expect(outline(events)).toContain(`${name}: Failed`);
      expect(findTest(events, name).commands).toEqual(expected);
      await server.query(expected.join("\n"), 'Odd "base');
    };
    await mend("Permission Create", ['GRANT CREATE ON DATABASE "Odd ""base" TO "Weak ""one";']);
    await mend("Permission Temporary", ['GRANT TEMPORARY ON DATABASE "Odd ""base" TO "Weak ""one";']);
    await mend("Permission Target schema", ['GRANT USAGE, CREATE ON SCHEMA "tar get" TO "Weak ""one";']);
    await server.query("create schema millrace create table checkpoint (id int)", 'Odd "base');
    await mend("Permission Bookkeeping", [
      'GRANT USAGE, CREATE ON SCHEMA millrace TO "Weak ""one";',
      'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA millrace TO "Weak ""one";',
    ]);
    await server.query('alter role "Weak ""one" set default_transaction_read_only = on');
    await mend("Config Writable", [
      'ALTER ROLE "Weak ""one" IN DATABASE "Odd ""base" SET default_transaction_read_only = off;',
    ]);
    const events = await validate(sink);
    expect(outline(events).at(-1)).toBe("success");
    const grant = 'GRANT SET ON PARAMETER session_replication_role TO "Weak ""one";';
    expect(findTest(events, "Permission Triggers").commands).toEqual([grant]);
    await server.query(grant, 'Odd "base');
    expect(findTest(await validate(sink), "Permission Triggers").status.Success).toBeDefined();
  });
});
