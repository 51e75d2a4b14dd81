// COPY FROM STDIN past pg, to a real server.

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { Client } from "pg";
import { destroyClient } from "../../../../src/connection/postgres-client.ts";
import { copyIn } from "../../../../src/sink/postgres/copy-in/copy-in.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
let client: Client;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await server.query("drop table if exists t; create table t (line text)");
});

const sql = "copy t from stdin";

/** So many of about 100 kB, all different. */
function* large(chunks: number): Generator<Buffer> {
  for (let i = 0; i < chunks; i++) yield Buffer.from(`${i} ${"x".repeat(98)}\n`.repeat(1000));
}

/** Each chunk is written over as soon as the next is asked for, and the last one at the end. */
async function* leased(chunks: Iterable<Buffer>): AsyncGenerator<Buffer> {
  for (const chunk of chunks) {
    yield chunk;
    chunk.fill(0);
  }
}

async function lines(): Promise<string> {
  const [row] = await server.query("select count(*) || ' ' || count(distinct line) as lines from t");
  return String(row?.lines);
}

test("rows go in from chunks of any size, and are counted", async () => {
  await using own = await server.connect();
  const value = "v".repeat(3_000_000);
  const chunks = ["first\nsec", "", "ond\n", `${value}\n`, "last\n"].map((text) => Buffer.from(text));
  expect(await copyIn(own, sql, chunks)).toBe(4);
  expect(await copyIn(own, sql, [])).toBe(0);
  const { rows } = await own.query("select line from t");
  expect(rows.map(({ line }) => line)).toEqual(["first", "second", value, "last"]);
});

test("a chunk is free for use when the next is asked for, however slow the server reads", async () => {
  await using own = await server.connect();
  await server.query(`create function slowly() returns trigger language plpgsql as $$
    begin if random() < 0.0005 then perform pg_sleep(0.005); end if; return new; end $$;
    create trigger slowly before insert on t for each row execute function slowly()`);
  // What the kernel holds is a part of it.
  expect(await copyIn(own, sql, leased(large(150)))).toBe(150_000);
  expect(await lines()).toBe("150000 150");
});

test("what the server refuses is thrown as pg tells it, with the chunks left, and the session goes on", async () => {
  await using own = await server.connect();
  await server.query("create unique index on t (line)");
  const chunks = large(100);
  await expect(copyIn(own, sql, leased(chunks))).rejects.toMatchObject({ code: "23505" });
  expect([...chunks]).toEqual([]);
  expect((await own.query("select 2 as two")).rows).toEqual([{ two: 2 }]);
  const others = large(100);
  await expect(copyIn(own, "copy nothing from stdin", leased(others))).rejects.toMatchObject({
    code: "42P01",
  });
  expect([...others]).toEqual([]);
  expect((await own.query("select 3 as three")).rows).toEqual([{ three: 3 }]);
  expect(await lines()).toBe("0 0");
});

test("chunks that fail undo the copy, and the session goes on", async () => {
  await using own = await server.connect();
  async function* failing() {
    yield* large(3);
    throw new Error("nothing more comes");
  }
  await expect(copyIn(own, sql, failing())).rejects.toThrow("nothing more comes");
  expect(await lines()).toBe("0 0");
  expect((await own.query("select 2 as two")).rows).toEqual([{ two: 2 }]);
});

test("a connection that is lost ends the copy, whether the server reads or not", async () => {
  await using holder = await server.connect();
  for (const lose of [
    (pid: number) => server.query(`select pg_terminate_backend(${pid})`),
    async () => destroyClient(client),
  ]) {
    client = await server.connect();
    client.on("error", () => {});
    const [row] = (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
    await server.query(`create or replace function waits() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return new; end $$;
      create or replace trigger waits before insert on t for each row execute function waits()`);
    await holder.query("select pg_advisory_lock(7)");
    const copy = copyIn(client, sql, leased(large(300)));
    copy.catch(() => {});
    const waiting = "select from pg_stat_activity where wait_event = 'advisory'";
    await waitFor("the server waits", async () => (await server.query(waiting)).length === 1);
    await lose(row!.pid);
    await expect(copy).rejects.toThrow();
    await holder.query("select pg_advisory_unlock(7)");
    await expect(copyIn(client, sql, large(1))).rejects.toThrow();
    expect(await lines()).toBe("0 0");
  }
});

test("a session that the server has ended ends the copy, also where the connection stands", async () => {
  await using proxy = await TcpProxy.start(server.port);
  proxy.hold();
  client = new Client({ ...server.connection("postgres"), port: proxy.port });
  client.on("error", () => {});
  await client.connect();
  await server.query(`create or replace function waits() returns trigger language plpgsql as $$
    begin perform pg_sleep(100); return new; end $$;
    create trigger waits before insert on t for each row execute function waits()`);
  const copy = copyIn(client, sql, large(600));
  copy.catch(() => {});
  const waiting = "select pid from pg_stat_activity where wait_event = 'PgSleep'";
  await waitFor("the server waits", async () => (await server.query(waiting)).length === 1);
  // Until no more goes in.
  await Bun.sleep(300);
  await server.query(`select pg_terminate_backend(pid) from (${waiting}) s`);
  await expect(copy).rejects.toMatchObject({ code: "57P01" });
});
