import { expect, test } from "bun:test";
import { freePort } from "../../src/demo/free-port.ts";
import { findPostgresBinaries } from "../../src/demo/postgres-binaries.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { variants } from "../support/matrix.ts";

test.each(variants([14, 18], [15, 16, 17]))("a server of version %i is of that version", async (major) => {
  await using server = await PostgresServer.start({ major, settings: { fsync: "off" } });
  const rows = await server.query<{ major: number }>(
    "select current_setting('server_version_num')::int / 10000 as major",
  );
  expect(rows).toEqual([{ major }]);
});

test("a missing version is not replaced by another", async () => {
  expect(findPostgresBinaries(9)).toBeNull();
  await expect(PostgresServer.start({ major: 9 })).rejects.toThrow("No Postgres 9 was found");
});

test("without a version, the default one is used", () => {
  expect(findPostgresBinaries()).toBe(findPostgresBinaries(17));
});

test("a server that says a lot goes on", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off", log_statement: "all" } });
  const long = "x".repeat(100_000);
  for (let at = 0; at < 30; at++) await server.query(`select '${long}'`);
  expect(await server.query("select 1 as one")).toEqual([{ one: 1 }]);
});

test("a server is reached whatever the environment says of others", async () => {
  const before = { ...process.env };
  Object.assign(process.env, {
    PGSSLMODE: "require",
    PGSSLNEGOTIATION: "direct",
    PGOPTIONS: "-c default_transaction_read_only=on",
  });
  try {
    await using server = await PostgresServer.start({ settings: { fsync: "off" } });
    expect(await server.query("create table t (); select 1 as one")).toEqual([{ one: 1 }]);
  } finally {
    for (const name of ["PGSSLMODE", "PGSSLNEGOTIATION", "PGOPTIONS"])
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
  }
});

test("a port that somebody takes in the last moment is left to them", async () => {
  await using first = await PostgresServer.start({ settings: { fsync: "off" } });
  const ports = [first.port, first.port, await freePort()];
  const nextPort = () => Promise.resolve(ports.shift()!);
  await using second = await PostgresServer.start({ settings: { fsync: "off" } }, nextPort);
  expect([second.port === first.port, ports]).toEqual([false, []]);
  expect(await second.query("select 1 as one")).toEqual([{ one: 1 }]);
});
