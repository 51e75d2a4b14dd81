import { afterAll, beforeAll, expect, test } from "bun:test";
import { inSavepoint } from "../../src/connection/in-savepoint.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

test("work that fails is undone, in another such piece of work too, and the transaction goes on", async () => {
  await using client = await server.connect("postgres");
  const insert = (id: number) => client.query("insert into t values ($1)", [id]);
  await client.query("begin; create table t (id int primary key)");
  await inSavepoint(client, () => insert(1));
  const outer = inSavepoint(client, async () => {
    await insert(2);
    await inSavepoint(client, async () => {
      await insert(3);
      await insert(1);
    }).catch(() => undefined);
    await insert(4);
    return "done";
  });
  expect(await outer).toBe("done");
  const failed = inSavepoint(client, async () => {
    await insert(5);
    await insert(1);
  });
  expect(await failed.catch((error: { code: string }) => error.code)).toBe("23505");
  await client.query("commit");
  const { rows } = await client.query("select id from t order by id");
  expect(rows).toEqual([{ id: 1 }, { id: 2 }, { id: 4 }]);
});

test("the work's own error is told where the connection ends with it", async () => {
  await using client = await server.connect("postgres");
  await client.query("begin");
  const failure = inSavepoint(client, async () => {
    await client.query("select pg_terminate_backend(pg_backend_pid())");
  });
  expect(await failure.catch((error: { code: string }) => error.code)).toBe("57P01");
});
