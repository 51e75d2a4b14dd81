// What a session of the sink runs with, under settings that somebody chose and under none.

import { expect, test } from "bun:test";
import { openApplySession } from "../../../src/sink/postgres/sink-session.ts";
import { postgresSink } from "../../support/api/connector-config.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

test("a session sorts in memory and compresses with lz4 where nobody chose, and always waits for the log", async () => {
  await using server = await PostgresServer.start();
  const names = ["synchronous_commit", "work_mem", "default_toast_compression"];
  const settings = async () => {
    const connector = { connectorId: "sessions", signal: AbortSignal.timeout(20_000) };
    const session = await openApplySession(postgresSink(server.connection()), connector, () => {});
    try {
      const shown: unknown[] = [];
      for (const name of names) {
        const { rows } = await session.query(`show ${name}`);
        shown.push(...rows.flatMap((row) => Object.values(row)));
      }
      return shown;
    } finally {
      await session.end();
    }
  };
  const [offered] = await server.query(
    "select 'lz4' = any (enumvals) as lz4 from pg_settings where name = 'default_toast_compression'",
  );
  expect(await settings()).toEqual(["on", "32MB", offered?.lz4 === true ? "lz4" : "pglz"]);

  for (const chosen of [
    "synchronous_commit = off",
    "work_mem = '64kB'",
    "default_toast_compression = 'pglz'",
  ])
    await server.query(`alter role postgres set ${chosen}`);
  expect(await settings()).toEqual(["on", "64kB", "pglz"]);

  for (const chosen of ["synchronous_commit = remote_apply", "temp_file_limit = 0"])
    await server.query(`alter role postgres set ${chosen}`);
  expect(await settings()).toEqual(["remote_apply", "64kB", "pglz"]);
});
