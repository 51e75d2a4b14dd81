import { expect, test } from "bun:test";
import { Client } from "pg";
import { waitFor } from "../wait-for.ts";
import { PostgresServer } from "./postgres-server.ts";
import { TcpProxy } from "./tcp-proxy.ts";

test("it forwards, stalls, goes on, cuts and refuses", async () => {
  await using server = await PostgresServer.start();
  await using proxy = await TcpProxy.start(server.port);
  const through = async () => {
    const client = new Client({ ...server.connection(), port: proxy.port });
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  const client = await through();
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);

  proxy.stall();
  let answered = false;
  const pending = client.query("select repeat('x', 1000000)").then(() => {
    answered = true;
  });
  await server.query("select pg_sleep(0.2)");
  expect(answered).toBe(false);
  proxy.resume();
  await pending;

  const doomed = client.query("select pg_sleep(60)");
  await waitFor("the query runs", async () => {
    const rows = await server.query("select 1 from pg_stat_activity where query = 'select pg_sleep(60)'");
    return rows.length === 1;
  });
  proxy.cut();
  await expect(doomed).rejects.toThrow();

  proxy.refuse(true);
  await expect(through()).rejects.toThrow();
  proxy.refuse(false);
  await (await through()).end();
});
