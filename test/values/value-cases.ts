// Every built-in type and its hostile values, as data. What is done with them is in type-torture.ts.

import { hostileTexts, incompressible } from "./hostile-texts.ts";
import { ownCases } from "./own-cases.ts";
import { timeCases } from "./time-cases.ts";
import { e, q, type ValueCase } from "./value-case.ts";

const numbers: readonly ValueCase[] = [
  { type: "boolean", values: ["true", "false"], json: "boolean", isKey: true },
  { type: "smallint", values: ["-32768", "32767", "0"], json: "number", isKey: true },
  { type: "integer", values: ["-2147483648", "2147483647", "0"], json: "number", isKey: true },
  {
    type: "bigint",
    values: ["-9223372036854775808", "9223372036854775807", "9007199254740993", "0"].map(q),
    json: "number",
    isKey: true,
  },
  { type: "oid", values: ["'4294967295'", "'0'"], json: "number", isKey: true },
  {
    type: "real",
    values: ["NaN", "Infinity", "-Infinity", "-0", "0", "3.4028235e38", "1e-45", "0.1", "16777216"].map(q),
    json: "float",
    isKey: true,
  },
  {
    type: "double precision",
    values: [
      ...["NaN", "Infinity", "-Infinity", "-0", "0", "1.7976931348623157e308", "5e-324"],
      ...["0.30000000000000004", "1e-5", "9007199254740993"],
    ].map(q),
    json: "float",
    isKey: true,
  },
  {
    type: "numeric",
    values: [
      ...["'NaN'", "'Infinity'", "'-Infinity'", "0", "-0.000", "1.50", "1.500", "1e-16383"],
      "repeat('9', 20000) || '.' || repeat('7', 3000)",
    ],
    json: "text",
    isKey: true,
  },
  { type: "numeric(10,2)", values: ["99999999.99", "-0.01", "'NaN'"], json: "text", isKey: true },
  {
    type: "numeric(3,-2)",
    values: ["99900", "-100"],
    json: "text",
    since: { source: 15, sink: 14 },
  },
  { type: "numeric(2,5)", values: ["0.00012"], json: "text", since: { source: 15, sink: 14 } },
  {
    type: "money",
    values: ["-92233720368547758.08", "92233720368547758.07", "0"].map(q),
    json: "text",
    isKey: true,
  },
  { type: "bit(1)", values: ["b'0'", "b'1'"], json: "text", isKey: true },
  { type: "bit(70)", values: ["repeat('10', 35)", "repeat('0', 70)"], json: "text", isKey: true },
  { type: "bit varying", values: ["''", "'1'", "repeat('101', 333)"], json: "text", isKey: true },
  { type: "bit varying(5)", values: ["''", "'10101'"], json: "text" },
];

const texts: readonly ValueCase[] = [
  { type: "text", values: hostileTexts, json: "text", isKey: true },
  { type: "character varying", values: hostileTexts, json: "text" },
  { type: "character varying(5)", values: ["''", "'éééé😀'", "'a    '"], json: "text", isKey: true },
  { type: "character(5)", values: ["''", "'é'", "'     '"], json: "text", isKey: true },
  { type: "bpchar", values: ["''", "'ab  '"], json: "text" },
  { type: "name", values: [q("x".repeat(63)), "''", q('"é')], json: "text", isKey: true },
  { type: '"char"', values: ["'a'", "''", "'\"'", e("\\\\"), e("\\x01")], json: "text", isKey: true },
  // From 15 on a byte beyond ASCII is printed as `\303`; before, it is a lone byte, which no text may hold.
  { type: '"char"', values: ['(-61)::"char"'], json: "text", since: { source: 15, sink: 15 } },
  {
    type: "bytea",
    values: [e("\\\\x"), e("\\\\x00"), e("\\\\x5c785c4e0a0d09ff00"), `decode(${incompressible}, 'hex')`],
    json: "base64",
    isKey: true,
  },
  {
    type: "uuid",
    values: [q("00000000-0000-0000-0000-000000000000"), q("ffffffff-ffff-ffff-ffff-ffffffffffff")],
    json: "text",
    isKey: true,
  },
  {
    type: "json",
    values: [
      "null",
      "'null'",
      e(
        '{ "b" : 1,\\n  "a":[1.50, 1e400, "\\\\u00e9\\\\n", 1234567890123456789012345678901234567890.10], "a" : {} }',
      ),
      q('" "'),
      q("-0"),
      q("[]"),
    ],
    json: "json",
  },
  {
    type: "jsonb",
    values: [
      "'null'",
      q('{"n":1234567890123456789012345678901234567890.10,"m":-0.00,"e":1e100,"s":"\\u00e9\\\\ \\" \\t😀"}'),
      q('[[],{},"",null,true,1e-20]'),
      q('"\\\\N"'),
      `(select jsonb_object_agg(md5(i::text), i) from generate_series(1, 300) i)`,
    ],
    json: "json",
    isKey: true,
  },
  {
    type: "jsonpath",
    values: [q("$"), q('strict $."a b"[*] ? (@.c > 1 && @.d like_regex "^x" flag "i")')],
    json: "text",
  },
  {
    // A declaration that says nothing (`version="1.0"`, `encoding="UTF-8"`) is left out by Postgres' own output function.
    type: "xml",
    values: [
      q('<?xml version="1.0" standalone="yes"?><a b="&lt;&amp;">é😀</a>'),
      "''",
      q("no element"),
      e("<a>\\n\\t<![CDATA[<x>]]></a>"),
    ],
    json: "text",
  },
  {
    type: "tsvector",
    values: ["''", q("'a b':1A,16383D 'it''s':2B 'back\\\\slash':3 'é'")],
    json: "text",
    isKey: true,
  },
  {
    type: "tsquery",
    values: ["''", q("'a' & !'b c' | 'it''s':*AB <3> 'd'")],
    isTextOnly: true,
    json: "text",
    isKey: true,
  },
  { type: "refcursor", values: ["''", q('a "cursor"')], json: "text" },
];

const ranges: readonly ValueCase[] = [
  ["int4", "[-2147483648,2147483646]", "(,)"],
  ["int8", "[-9223372036854775808,9223372036854775806]", "[,5)"],
  ["num", "(-1.10,2.200]", "[-Infinity,NaN]"],
  ["ts", '["0044-03-15 12:00:00.000001 BC",infinity)', '(-infinity,"2024-01-01 00:00:00"]'],
  ["tstz", '["2024-01-01 00:00:00.5+05:30","2024-01-02 00:00:00+00"]', "(,infinity]"],
  ["date", "[4714-11-24 BC,infinity]", "[2024-02-28,2024-02-29]"],
].flatMap(([subtype, first, second]): ValueCase[] => [
  { type: `${subtype}range`, values: ["'empty'", q(first!), q(second!)], json: "text", isKey: true },
  {
    type: `${subtype}multirange`,
    values: ["'{}'", q(`{${first}}`), q(`{${second}}`)],
    json: "text",
    isKey: true,
  },
]);

const networkAndGeometry: readonly ValueCase[] = [
  {
    type: "inet",
    values: ["1.2.3.4", "10.0.0.0/8", "::1", "::ffff:1.2.3.4/64", "fe80::1/10"].map(q),
    json: "text",
    isKey: true,
  },
  { type: "cidr", values: ["0.0.0.0/0", "1.2.3.4/32", "2001:db8::/32"].map(q), json: "text", isKey: true },
  { type: "macaddr", values: ["'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'"], json: "text", isKey: true },
  {
    type: "macaddr8",
    values: ["'00:00:00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff:ff:ff'"],
    json: "text",
    isKey: true,
  },
  {
    type: "point",
    values: ["(1.7976931348623157e308,-5e-324)", "(NaN,Infinity)", "(-0,0)"].map(q),
    json: "text",
  },
  { type: "line", values: ["{1,-1,0}", "{0.1,0.2,0.30000000000000004}"].map(q), json: "text" },
  { type: "lseg", values: ["'[(1,2),(3,4)]'"], json: "text" },
  { type: "box", values: ["'(3,4),(1,2)'", "'(0,0),(0,0)'"], json: "text" },
  { type: "path", values: ["'[(1,2),(3,4)]'", "'((1,2),(3,4),(0.1,0))'"], json: "text" },
  { type: "polygon", values: ["'((0,0),(1,0),(0,1))'"], json: "text" },
  { type: "circle", values: ["'<(1,2),0>'", "'<(0.1,0.2),3>'"], json: "text" },
];

const systems: readonly ValueCase[] = [
  { type: "pg_lsn", values: ["'0/0'", "'FFFFFFFF/FFFFFFFF'"], json: "text", isKey: true },
  { type: "xid", values: ["'0'", "'4294967295'"], json: "text" },
  { type: "xid8", values: ["'0'", "'18446744073709551615'"], json: "text", isKey: true },
  { type: "cid", values: ["'4294967295'"], json: "text" },
  { type: "tid", values: ["'(0,1)'", "'(4294967295,65535)'"], json: "text", isKey: true },
  { type: "txid_snapshot", values: ["'10:20:10,14,15'", "'1:1:'"], json: "text" },
  { type: "pg_snapshot", values: ["'10:20:10,14,15'", "'1:1:'"], json: "text" },
  {
    type: "int2vector",
    values: ["''", "'1 -2 3'"],
    arrays: ['\'{"1 2",NULL,""}\''],
    isTextOnly: true,
    json: "text",
  },
  {
    type: "oidvector",
    values: ["''", "'1 4294967295'"],
    arrays: ["'{\"1 2\",NULL}'"],
    isTextOnly: true,
    json: "text",
    isKey: true,
  },
  ...(
    [
      ["aclitem", "'postgres=r*w/postgres'", "'=r/postgres'"],
      ["regclass", "'pg_class'", "'-'"],
      ["regcollation", "'\"C\"'", "'-'"],
      ["regconfig", "'english'"],
      ["regdictionary", "'simple'"],
      ["regnamespace", "'pg_catalog'"],
      ["regoper", "'||/'"],
      ["regoperator", "'+(integer,integer)'"],
      ["regproc", "'now'"],
      ["regprocedure", "'abs(integer)'"],
      ["regrole", "'postgres'"],
      ["regtype", "'integer[]'", "'character varying'"],
    ] as const
  ).map(([type, ...values]): ValueCase => ({ type, values, json: "text", isTextOnly: true })),
  ...(
    [
      ["pg_node_tree", "(select adbin from pg_attrdef order by oid limit 1)", true],
      ["pg_ndistinct", "(select stxdndistinct from pg_statistic_ext_data limit 1)", true],
      ["pg_dependencies", "(select stxddependencies from pg_statistic_ext_data limit 1)", true],
      ["pg_mcv_list", "(select stxdmcv from pg_statistic_ext_data limit 1)", true],
      ["pg_brin_bloom_summary", "null", true],
      ["pg_brin_minmax_multi_summary", "null", true],
      ["gtsvector", "null", false],
    ] as const
  ).map(
    ([type, value, isArrayless]): ValueCase => ({
      type,
      values: [value],
      json: "text",
      isTextOnly: true,
      isArrayless,
      sinkType: "text",
    }),
  ),
];

export const valueCases: readonly ValueCase[] = [
  ...numbers,
  ...texts,
  ...timeCases,
  ...ranges,
  ...networkAndGeometry,
  ...systems,
  ...ownCases,
];
