// Every value of every type from a server of one version to a server of another, by copy and by stream, as bytes and as
// text, to a Postgres sink and to a webhook: what arrives is what was there.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { slotRelease } from "../support/servers/slot-release.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookLife } from "../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../support/webhook/webhook-rig.ts";
import { ownTypesSql } from "./own-cases.ts";
import { quoted, type TortureTable, tortureTables } from "./torture-tables.ts";
import { type ExactNumber, expectedJson, parseExactly, textsSql } from "./webhook-values.ts";

setDefaultTimeout(120_000);

/** Gives the catalog's own types a value that somebody may have stored. */
const statisticsSql =
  "create table statistics_of (a int, b int); create statistics s (ndistinct, dependencies, mcv) on a, b from statistics_of;" +
  "insert into statistics_of select i % 3, i % 3 from generate_series(1, 100) i; analyze statistics_of;";

let count = 0;

type Query = <Row extends object>(sql: string) => Promise<Row[]>;

/** Makes the tables with the rows that are copied. */
async function fill(source: Query, tables: readonly TortureTable[]): Promise<void> {
  await source(
    `create schema torture; create table torture.done (id int primary key); ${statisticsSql} ${ownTypesSql}`,
  );
  for (const { createSql, copiedSql } of tables) await source(`${createSql} ${copiedSql}`);
}

/** Makes the changes that are streamed, the last of which is a row of `torture.done`. */
async function change(source: Query, tables: readonly TortureTable[]): Promise<void> {
  for (const { insertSql } of tables) await source(insertSql);
  for (const { changeSql } of tables) await source(changeSql);
  await source("insert into torture.done values (1)");
}

/** Has the first rows copied and the rest streamed, and waits until all has been applied. */
async function carried(
  rig: PipelineRig,
  tables: readonly TortureTable[],
  sinkKnowsTypes: boolean,
): Promise<void> {
  await fill(rig.source.bind(rig), tables);
  if (sinkKnowsTypes) await rig.sink(ownTypesSql);
  const failed = () => rig.ended().then((error) => Promise.reject(error));
  rig.start();
  await Promise.race([rig.untilRealtime(), failed()]);
  await change(rig.source.bind(rig), tables);
  const applied = async () => (await rig.sink("select from torture.done")).length === 1;
  await Promise.race([waitFor("the changes", applied, { timeoutMs: 90_000 }), failed()]);
}

/** Values as `::text` gives them, or as the type prints itself, where the sink has text in its place. */
async function textsOf(query: Query, table: TortureTable, asPrinted: boolean): Promise<readonly unknown[]> {
  const values = table.columns.map(({ name }) =>
    asPrinted
      ? `case when ${quoted(name)} is distinct from null then format('%s', ${quoted(name)}) end`
      : `${quoted(name)}::text`,
  );
  const rows = await query<{ row: unknown }>(
    `set extra_float_digits = 3; set timezone = 'UTC'; set intervalstyle = postgres; select array[${table.orderBy}::text, ${values.join(", ")}]::text[] as row from ${table.sqlName} order by ${table.orderBy}, 1`,
  );
  return rows.map(({ row }) => row);
}

async function differences(
  rig: PipelineRig,
  tables: readonly TortureTable[],
  asPrinted: boolean,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const table of tables) {
    const source = (await textsOf(rig.source.bind(rig), table, asPrinted)) as (string | null)[][];
    const sink = (await textsOf(rig.sink.bind(rig), table, asPrinted)) as (string | null)[][];
    if (source.length !== sink.length)
      found.push(`${table.sqlName}: ${source.length} rows, ${sink.length} at the sink`);
    source.forEach((row, r) => {
      row.forEach((value, c) => {
        if (value === sink[r]?.[c]) return;
        const name = table.columns[c - 1]?.name ?? "order";
        found.push(
          `${table.sqlName} ${row[0]} ${name}: ${value?.slice(0, 80)} → ${sink[r]?.[c]?.slice(0, 80)}`,
        );
      });
    });
  }
  return found;
}

async function typeDifferences(rig: PipelineRig, tables: readonly TortureTable[], sinkKnowsTypes: boolean) {
  const typesSql = `select attrelid::regclass::text || ' ' || attname as name, format_type(atttypid, atttypmod) as type
    from pg_attribute where attrelid in (select oid from pg_class where relnamespace = 'torture'::regnamespace and relkind = 'r') and attnum > 0 order by 1`;
  const typeOf = async (query: Query) =>
    new Map((await query<{ name: string; type: string }>(typesSql)).map(({ name, type }) => [name, type]));
  const [source, sink] = [await typeOf(rig.source.bind(rig)), await typeOf(rig.sink.bind(rig))];
  return tables.flatMap((table) =>
    table.columns.flatMap((column) => {
      const name = `${table.sqlName} ${column.name}`;
      const expected = column.sinkType ?? source.get(name);
      // Extensions are not made, nor what needs them.
      const isText = column.isOwn && !sinkKnowsTypes && sink.get(name) === "text";
      return sink.get(name) === expected || isText ? [] : [`${name}: ${expected} → ${sink.get(name)}`];
    }),
  );
}

/** The receiver's last word on each row: by path, then by key. */
function heldBy(receiver: WebhookReceiver): Map<string, Map<string, Record<string, unknown>>> {
  const rows = receiver.deduplicated.flatMap(({ path, body }) =>
    (parseExactly(body) as Record<string, unknown>[]).map((row) => ({ path, row })),
  );
  const version = (row: Record<string, unknown>) => Number((row._sm_version as ExactNumber).digits);
  const held = new Map<string, Map<string, Record<string, unknown>>>();
  for (const { path, row } of rows.toSorted((a, b) => version(a.row) - version(b.row))) {
    const table = held.get(path) ?? new Map<string, Record<string, unknown>>();
    held.set(path, table);
    const key = JSON.stringify(row.id ?? row.k);
    if (row._sm_deleted === true) table.delete(key);
    else table.set(key, row);
  }
  return held;
}

/** Each value that differs from what the source's text says. */
async function webhookDifferences(source: Query, tables: readonly TortureTable[], receiver: WebhookReceiver) {
  const held = heldBy(receiver);
  const found: string[] = [];
  for (const table of tables) {
    const rows = await source<{ row: (string | null)[] }>(textsSql(table));
    const received = held.get(table.path) ?? new Map<string, Record<string, unknown>>();
    if (rows.length !== received.size)
      found.push(`${table.path}: ${rows.length} rows, ${received.size} received`);
    for (const { row } of rows) {
      const values = table.columns.map((column, c) => expectedJson(column, row[c + 1] ?? null));
      const key = table.keyColumn === "id" ? { digits: row[0] } : values[0];
      const got = received.get(JSON.stringify(key));
      table.columns.forEach(({ name }, c) => {
        if (got !== undefined && Bun.deepEquals(got[name], values[c])) return;
        const shown = (value: unknown) => JSON.stringify(value)?.slice(0, 90);
        found.push(
          `${table.path} ${row[0]?.slice(0, 20)} ${name}: ${shown(values[c])} → ${shown(got?.[name])}`,
        );
      });
    }
  }
  return found;
}

export function describeTypeTorture(sourceMajor: number, sinkMajor: number): void {
  describe(`values from version ${sourceMajor} to ${sinkMajor}`, () => {
    let source: PostgresServer;
    let sinkServer: PostgresServer;
    beforeAll(async () => {
      const settings = { fsync: "off" };
      source = await PostgresServer.start({ major: sourceMajor, settings });
      sinkServer =
        sourceMajor === sinkMajor ? source : await PostgresServer.start({ major: sinkMajor, settings });
    });
    afterAll(async () => {
      await source[Symbol.asyncDispose]();
      if (sinkServer !== source) await sinkServer[Symbol.asyncDispose]();
    });
    const rigWith = (options: RigOptions) =>
      PipelineRig.create(source, `v${++count}`, { ...options, sinkServer });
    const cases = (binaryOnly: boolean) =>
      tortureTables({ source: sourceMajor, sink: sinkMajor, binaryOnly });

    test("every type arrives by a stream in text", async () => {
      const tables = cases(false);
      await using rig = await rigWith({});
      await carried(rig, tables, true);
      expect(await differences(rig, tables, false)).toEqual([]);
      expect(await typeDifferences(rig, tables, true)).toEqual([]);
      expect(rig.streamForms).toEqual(["text"]);
      await rig.stop();
    });

    test("every type that has a binary form arrives by a stream of bytes", async () => {
      const tables = cases(true);
      await using rig = await rigWith({});
      await carried(rig, tables, true);
      expect(await differences(rig, tables, false)).toEqual([]);
      expect(rig.streamForms).toEqual(["binary"]);
      await rig.stop();
    });

    test("a type that the sink lacks is made there, or arrives as its text", async () => {
      const tables = cases(false).filter((table) => table.columns.some((column) => column.isOwn));
      await using rig = await rigWith({});
      await carried(rig, tables, false);
      expect(await differences(rig, tables, true)).toEqual([]);
      expect(await typeDifferences(rig, tables, false)).toEqual([]);
      await rig.stop();
    });

    test("a webhook receives what the source's own text says", async () => {
      const tables = cases(false).filter(({ hasKey }) => hasKey);
      const database = `hook${++count}`;
      await source.createDatabase(database);
      const query: Query = (sql) => source.query(sql, database);
      await fill(query, tables);
      await using receiver = await WebhookReceiver.start();
      const connector = webhookConnector(receiver.url);
      const life = await WebhookLife.start(source.connection(database), connector, new RecordStore(), {
        yes: false,
      });
      await waitFor("the stream", () => life.phase === "realtime", { timeoutMs: 90_000 });
      await change(query, tables);
      await receiver.until(() => receiver.delivered.some(({ path }) => path === "/torture/done"), 60_000);
      await life.stop();
      expect(await webhookDifferences(query, tables, receiver)).toEqual([]);
      await slotRelease(source, `millrace_${database}`);
      await query(`select pg_drop_replication_slot('millrace_${database}')`);
    });

    test("every built-in type is among them", async () => {
      await using rig = await rigWith({});
      await rig.source(`create schema torture; ${statisticsSql} ${ownTypesSql}`);
      for (const { createSql } of cases(false)) await rig.source(createSql);
      const missing = await rig.source(
        `select format_type(oid, null) as type from pg_type where oid < 12000 and typtype not in ('p', 'c') and typelem not in (select oid from pg_type where typtype in ('c', 'p'))
         and oid not in (select atttypid from pg_attribute where attrelid in (select oid from pg_class where relnamespace = 'torture'::regnamespace))`,
      );
      expect(missing).toEqual([]);
    });
  });
}
