// Every value of every type in Debezium's form, under each of its modes: what is sent says what the source's own text says, and the
// embedded schema says what it is.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { zeroLsn } from "../../src/change/lsn.ts";
import type { Column, Relation } from "../../src/change/relation.ts";
import type { ConnectSchema } from "../../src/sink/format/connect-schema.ts";
import type { DataTypeOptions } from "../../src/sink/format/debezium/debezium-column.ts";
import { DebeziumRowEncoder } from "../../src/sink/format/debezium/debezium-row.ts";
import { ByteWriter } from "../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../src/sink/format/values/tuple-view.ts";
import { relation, tupleBytes } from "../support/batch-fixture.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { isValue } from "./debezium-values.ts";
import { ownTypesSql } from "./own-cases.ts";
import { quoted, type TortureTable, tortureTables } from "./torture-tables.ts";
import { parseExactly } from "./webhook-values.ts";

const major = 18;
/** Each mode of each option once, and what they are together by default. */
const modes: readonly DataTypeOptions[] = [
  ["Bytes", "Precise", "Adaptive"],
  ["Base64", "Double", "AdaptiveTimeMicroseconds"],
  ["Base64UrlSafe", "String", "Connect"],
  ["Hex", "Precise", "IsoString"],
  ["Bytes", "Double", "Microseconds"],
  ["Bytes", "String", "Nanoseconds"],
].map(([binary, decimal, time]) => ({
  binary_handling_mode: binary as DataTypeOptions["binary_handling_mode"],
  decimal_handling_mode: decimal as DataTypeOptions["decimal_handling_mode"],
  time_precision_mode: time as DataTypeOptions["time_precision_mode"],
}));

interface Stored {
  readonly table: TortureTable;
  readonly relation: Relation;
  /** Texts as the stream brings them. */
  readonly rows: readonly (string | null)[][];
  /** Of arrays: the elements' texts. */
  readonly elements: readonly (string | null)[][];
}

let stored: readonly Stored[];
beforeAll(async () => {
  await using server = await PostgresServer.start({ major, settings: { fsync: "off" } });
  await using client = await server.connect("postgres");
  await client.query(
    `set datestyle = iso; set intervalstyle = postgres; set timezone = 'UTC'; set extra_float_digits = 3; set lc_monetary = 'C';
     create schema torture; create table statistics_of (a int, b int);
     create statistics s (ndistinct, dependencies, mcv) on a, b from statistics_of;
     insert into statistics_of select i % 3, i % 3 from generate_series(1, 100) i; analyze statistics_of; ${ownTypesSql}`,
  );
  const tables = tortureTables({ source: major, sink: major, binaryOnly: false });
  const own = tables.filter(({ path }) => /\/t\d+$/.test(path));
  stored = await Promise.all(
    own.map(async (table) => {
      await client.query(`${table.createSql} ${table.copiedSql}`);
      const { rows: columns } = await client.query<Column>(columnsSql(table));
      const texts = await client.query<{ texts: string[]; elements: string[] }>(textsSql(table));
      return {
        table,
        relation: { ...relation("t", [], { key: [] }), columns: columns.map(asColumn) },
        rows: texts.rows.map((row) => row.texts),
        elements: texts.rows.map((row) => row.elements),
      };
    }),
  );
}, 60_000);
afterAll(() => {
  stored = [];
});

/** Columns, with the types that domains stand for. */
function columnsSql({ sqlName, columns }: TortureTable): string {
  const names = columns.map(({ name }) => `'${name.replaceAll("'", "''")}'`).join(", ");
  return `
    with recursive under as (
      select a.attnum, a.attname as name, a.atttypid as oid, a.atttypmod as typmod
      from pg_attribute a where a.attrelid = '${sqlName}'::regclass and a.attname in (${names})
      union all
      select u.attnum, u.name, t.typbasetype, t.typtypmod from under u join pg_type t on t.oid = u.oid where t.typtype = 'd'
    )
    select distinct on (attnum) name, oid::int8::int as "typeOid", typmod, format_type(oid, typmod) as "typeName",
      (select e.typdelim from pg_type e join pg_type t on t.typelem = e.oid where t.oid = u.oid and e.typdelim <> ',') as "arrayDelimiter"
    from under u order by attnum, (select typtype = 'd' from pg_type where oid = u.oid)`;
}

function asColumn(column: Column): Column {
  const { arrayDelimiter, ...rest } = column;
  const delimiter = arrayDelimiter ? { arrayDelimiter } : {};
  return { ...rest, ...delimiter, number: 0, binaryLayout: "same", addedValue: null };
}

function textsSql({ sqlName, columns }: TortureTable): string {
  const texts = columns.map(({ name }) => {
    const column = quoted(name);
    return `case when ${column} is distinct from null then format('%s', ${column}) end`;
  });
  const elements = columns.map(({ name, isArray, type }) => {
    if (!isArray) return "null";
    const isPlain = !/box\[\]$|\.semi\[\]$|\.boxes(\[\])?$/.test(type);
    const column = quoted(name);
    const texts = `array_to_json(${isPlain ? `format('%s', ${column})` : column}::text[])::text`;
    return `case when ${column} is distinct from null then ${texts} end`;
  });
  return `select array[${texts}]::text[] as texts, array[${elements}]::text[] as elements from ${sqlName} order by id`;
}

interface Sent {
  readonly schema: { readonly fields: readonly { readonly fields: readonly ConnectSchema[] }[] };
  readonly payload: { readonly after: Record<string, unknown> };
}

function encoder(of: Relation, dataTypes: DataTypeOptions) {
  const fixed = { version: "1", name: "c", database: "d", includeBefore: true, placeholder: false };
  const made = new DebeziumRowEncoder(of, { ...fixed, dataTypes, embedSchema: true, now: () => 0 });
  const view = new TupleView();
  const out = new ByteWriter();
  return (row: readonly (string | null)[]): Sent => {
    const arena = tupleBytes(row);
    view.read(arena, 0, arena.length);
    out.length = 0;
    made.writeRow(out, arena, new TupleView(), view, {
      ...{ operation: "create", version: 1, oldIsKey: false, commitTimeUs: 0, commitLsn: zeroLsn, place: 0 },
      ...{ xid: 1, totalOrder: 0, tableOrder: 0, snapshot: false },
    });
    return parseExactly(Buffer.from(out.slice()).toString()) as Sent;
  };
}

function areElements(schema: ConnectSchema, texts: unknown, sent: unknown, binary: string): boolean {
  if (texts === null || sent === null) return texts === sent;
  if (!Array.isArray(texts)) return isValue(schema, String(texts), sent, binary);
  const isAsLong = Array.isArray(sent) && sent.length === texts.length;
  return isAsLong && texts.every((text, i) => areElements(schema, text, sent[i], binary));
}

test.each(modes.map((mode) => [Object.values(mode).join(", "), mode] as const))(
  "under %s every value is what the source's text says",
  (_, mode) => {
    const wrong: string[] = [];
    for (const { table, relation: of, rows, elements } of stored) {
      const encode = encoder(of, mode);
      rows.forEach((row, r) => {
        const { schema, payload } = encode(row);
        table.columns.forEach(({ name, isArray, json }, c) => {
          const field = schema.fields[1]!.fields[c]!;
          const text = row[c] ?? null;
          const sent = payload.after[name];
          const binary = json === "base64" ? mode.binary_handling_mode : "";
          const isRight = () => {
            if (text === null) return sent === null;
            if (!isArray) return isValue(field, text, sent, binary);
            return areElements(field.items!, JSON.parse(elements[r]![c]!), sent, binary);
          };
          if (!isRight())
            wrong.push(`${name}: ${text?.slice(0, 80)} → ${JSON.stringify(sent)?.slice(0, 80)}`);
        });
      });
    }
    expect(wrong).toEqual([]);
    expect(stored.flatMap(({ rows }) => rows).length).toBeGreaterThan(100);
  },
);
