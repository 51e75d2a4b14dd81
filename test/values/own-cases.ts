// Types that are not built in: of users, and of the extensions that come with Postgres.

import { hostileTexts } from "./hostile-texts.ts";
import { e, q, type ValueCase } from "./value-case.ts";

const ownSchema = 'Own "types". é';
const own = `"${ownSchema.replaceAll('"', '""')}"`;
const longLabel = "l".repeat(63);

/** Run at the source before the tables are made, and at a sink that is to know the types. */
export const ownTypesSql = `
create schema ${own};
create extension hstore; create extension citext; create extension cube; create extension ltree; create extension isn; create extension seg;
create type ${own}."möod []" as enum ('', 'a b', 'q"''\\,', 'é😀', '${longLabel}');
create domain ${own}.whole as int8 check (value > -5);
create domain ${own}.wholes as int8[];
create domain ${own}.moody as ${own}."möod []";
create domain ${own}.deep as ${own}.whole;
create domain ${own}.moment as timestamptz(3);
create domain ${own}.document as jsonb;
create domain ${own}.boxes as box[];
create type ${own}.pair as (a int, "B ""c" text, m ${own}."möod []", n numeric[]);
create type ${own}.nested as (p ${own}.pair, ps ${own}.pair[], w ${own}.whole);
create domain ${own}.good_pair as ${own}.pair check ((value).a is distinct from 7);
create table ${own}.row_type (x timestamptz, y text);
create type ${own}.text_range as range (subtype = text, collation = "C");
create type ${own}.mood_range as range (subtype = ${own}."möod []");
create type ${own}.whole_range as range (subtype = ${own}.whole);
create type ${own}.semi;
create function ${own}.semi_in(cstring) returns ${own}.semi language internal immutable strict as 'textin';
create function ${own}.semi_out(${own}.semi) returns cstring language internal immutable strict as 'textout';
create type ${own}.semi (input = ${own}.semi_in, output = ${own}.semi_out, like = text, delimiter = ';');
`;

const hostileText = e("a\\\\\\t\\n\\'\"(),{}");
const pairs = [
  `row(1, ${hostileText}, 'q"''\\,', array[1.50, null, 'NaN'])`,
  "row(null, null, null, null)",
  "row(-1, '', '', '{}')",
];

const owned: readonly ValueCase[] = [
  {
    type: `${own}."möod []"`,
    values: ["''", "'a b'", "'q\"''\\,'", "'é😀'", q(longLabel)],
    json: "text",
    isKey: true,
  },
  { type: `${own}.whole`, values: ["-4", "'9223372036854775807'"], json: "number", isKey: true },
  {
    type: `${own}.wholes`,
    values: ["'{1,NULL,-9223372036854775808}'", "'{}'", "'[2:3]={1,2}'"],
    arrays: ["'{\"{1,2}\",NULL}'"],
    json: "number",
    isArrayDomain: true,
    isKey: true,
  },
  { type: `${own}.moody`, values: ["''", "'é😀'"], json: "text", isKey: true },
  {
    type: `${own}.moment`,
    values: ["'2024-02-03 04:05:06.7891+02'", "'infinity'"],
    json: "timestamp",
    isKey: true,
  },
  {
    type: `${own}.document`,
    values: [q('{"n":1234567890123456789012345678901234567890.10}'), "'null'"],
    json: "json",
  },
  {
    type: `${own}.boxes`,
    values: ["'{(1,1),(0,0);(3,4),(1,2)}'", "'{}'"],
    arrays: ["'{\"{(1,1),(0,0)}\";NULL}'"],
    json: "text",
    isArrayDomain: true,
  },
  { type: `${own}.deep`, values: ["-4", "5"], json: "number", isKey: true },
  { type: `${own}.pair`, values: pairs, json: "text", isTextOnly: true, isKey: true },
  {
    type: `${own}.nested`,
    values: [`row(${pairs[0]}, array[${pairs.map((pair) => `${pair}::${own}.pair`).join(", ")}, null], -4)`],
    json: "text",
    isTextOnly: true,
  },
  { type: `${own}.good_pair`, values: pairs, json: "text", isTextOnly: true },
  { type: `${own}.row_type`, values: ["row('infinity', '\\N')"], json: "text", isTextOnly: true },
  {
    type: `${own}.text_range`,
    values: ["'empty'", `${own}.text_range('', ${hostileText} || 'z', '[]')`],
    json: "text",
    isKey: true,
  },
  {
    type: `${own}.text_multirange`,
    values: ["'{}'", `${own}.text_multirange(${own}.text_range('a', '😀"'))`],
    json: "text",
  },
  { type: `${own}.mood_range`, values: [`${own}.mood_range('a b', 'é😀', '[]')`], json: "text" },
  { type: `${own}.whole_range`, values: ["'[1,5]'"], json: "text" },
  { type: `${own}.semi`, values: ["'a;b,c'", hostileText], json: "text", isTextOnly: true },
  {
    type: "hstore",
    values: ["''", `hstore(array['a', null, 'b "\\=>', ${hostileText}, '', ''])`],
    json: "text",
    isKey: true,
  },
  { type: "citext", values: hostileTexts, json: "text", isKey: true },
  { type: "cube", values: ["'(1,-0,1e300),(2,3,4)'", "'(0)'"], json: "text", isKey: true },
  { type: "ltree", values: ["''", "'Top.Sub_1.a'"], json: "text", isKey: true },
  { type: "lquery", values: ["'Top.*{1,2}.a@*|b.*'"], json: "text" },
  { type: "ltxtquery", values: ["'a* & !b@'"], json: "text" },
  { type: "isbn13", values: ["'978-0-11-000533-1'"], json: "text", isKey: true, isTextOnly: true },
  { type: "seg", values: ["'1.50 .. 2.3'", "'~3'", "'< 1e-5'"], json: "text", isTextOnly: true },
];

export const ownCases = owned.map((value): ValueCase => ({ ...value, isOwn: true }));
