// Values of more than a megabyte between small ones: they take ways of their own through source and sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { pick } from "../../support/matrix.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** More than a megabyte that holds what COPY's text form escapes, nulls around them, and a value that is dropped from the middle. */
const body = String.raw`repeat(E'a\tb\\c\nd' || n, 150000)`;
const tables = ["by_key", "whole_row", "by_index", "keyless", "inserts_only"] as const;

function changes(table: (typeof tables)[number]): string {
  const insert = `insert into ${table} (id, note, body, raw) select n, null, ${body}, decode(repeat(md5(n::text), 40000), 'hex')
    from generate_series(1, 3) n`;
  const small = `insert into ${table} (id, note) select n, 'small ' || n from generate_series(100, 130) n`;
  if (table === "inserts_only") return `begin; ${small}; ${insert}; commit;`;
  return `
    begin; ${small}; ${insert}; insert into ${table} (id) values (7); commit;
    update ${table} set note = 'other column' where id < 10;
    begin; update ${table} set body = body || 'x' where id = 1; update ${table} set note = 'n' where id > 100; commit;
    update ${table} set id = id + 1000 where id = 2;
    update ${table} set id = id + 2000, body = 'z' || body where id = 1;
    update ${table} set body = body || 'y', raw = raw || '\\x01' where id in (2001, 1002);
    delete from ${table} where id = 3;
    begin; ${insert.replace("(1, 3)", "(3, 5)")}; update ${table} set raw = null where id = 4; delete from ${table} where id = 5; commit;
    begin; insert into ${table} (id, body) select 50, ${body} from generate_series(1, 1) n; rollback;`;
}

/** Every day each kind of table in one of the forms. */
const carriedAs = {
  binary: pick(tables, (table) => table !== "by_key" && table !== "inserts_only"),
  text: pick(tables, (table) => table === "by_key" || table === "inserts_only"),
};

test.each(["binary", "text"] as const)(
  "large values are carried as %s as they are",
  async (form) => {
    const forms = form === "text" ? (["text"] as const) : (["binary", "text"] as const);
    await using pair = await PipelineRig.create(server, `large_${form}`, { forms });
    const tables = carriedAs[form];
    for (const table of tables) {
      const key = table === "inserts_only" || table === "keyless" ? "" : "primary key";
      await pair.source(
        `create table ${table} (id int not null ${key}, note text, body text, raw bytea, dropped int);
       alter table ${table} alter body set storage external, alter raw set storage external;
       alter table ${table} drop column dropped; insert into ${table} select 90 + n, null, ${body} from generate_series(1, 2) n`,
      );
    }
    for (const table of tables.filter((table) => table === "whole_row" || table === "keyless"))
      await pair.source(`alter table ${table} replica identity full`);
    if (tables.includes("by_index"))
      await pair.source("alter table by_index replica identity using index by_index_pkey");
    pair.start();
    await pair.untilRealtime();
    for (const table of tables) await pair.source(changes(table));
    // To compare them takes long by itself.
    await pair.expectEqual(90_000);
    expect(pair.streamForms).toEqual([form]);
    await pair.stop();
  },
  120_000,
);

test("a large value that a row keeps is not sent again, unless the row is not there", async () => {
  await using pair = await PipelineRig.create(server, "large_kept");
  await pair.source(
    `create table t (id int primary key, note text, body text); alter table t replica identity full`,
  );
  await pair.source(`insert into t select n, null, ${body} from generate_series(1, 2) n`);
  pair.start();
  await pair.untilRealtime();
  await pair.sink("update t set body = 'kept' where id = 1; delete from t where id = 2");
  await pair.source("update t set note = 'new'");
  await waitFor("both rows", async () => {
    const rows = await pair.sink<{ body: string }>(
      "select left(body, 4) as body from t where note = 'new' order by id",
    );
    expect(rows.map((row) => row.body)).toEqual(["kept", "a\tb\\"]);
    return true;
  });
  await pair.stop();
});

test("a run goes on in the middle of a transaction of large values", async () => {
  await using pair = await PipelineRig.create(server, "large_cut");
  await pair.source("create table t (id int primary key, body text)");
  pair.start();
  await pair.untilRealtime();
  await pair.source(`insert into t select n, ${body} from generate_series(1, 40) n`);
  await waitFor(
    "some of it is on its way",
    async () => {
      const [row] = await pair.sink<{ busy: boolean }>(
        "select count(*) > 0 as busy from pg_stat_progress_copy where bytes_processed > 0",
      );
      return row?.busy === true;
    },
    { intervalMs: 2 },
  );
  await pair.crash();
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a transaction whose last piece was handed out is committed at its end, though nothing follows it", async () => {
  await using pair = await PipelineRig.create(server, "large_end");
  await pair.source("create table t (id int primary key, body text)");
  pair.start();
  await pair.untilRealtime();
  await pair.source(`insert into t select 1, ${body} from generate_series(1, 1) n`);
  await pair.expectEqual(5_000);
  await pair.stop();
});
