// Millrace's own tables in the target database, and the SQL that makes them. The files that read and write a table say what is in it.

export interface BookkeepingTable {
  readonly name: string;
  /** The table as it was at first. */
  readonly create: string;
  /** The columns that came later, as `name type …`: tables that an earlier version made lack them. */
  readonly added: readonly string[];
}

export const bookkeepingTables: readonly BookkeepingTable[] = [
  {
    name: "checkpoint",
    create: `create table millrace.checkpoint (
  connector_id text primary key,
  resume_lsn pg_lsn not null,
  last_version int8 not null,
  source_log text,
  updated_at timestamptz not null default now()
) with (fillfactor = 20)`,
    added: ["source_log text"],
  },
  {
    name: "table_copy",
    create: `create table millrace.table_copy (
  connector_id text not null,
  table_schema text not null,
  table_name text not null,
  table_identity text not null,
  point_lsn pg_lsn not null,
  is_merged boolean not null,
  copied_at timestamptz not null default now(),
  primary key (connector_id, table_schema, table_name)
)`,
    added: [
      "first_lsn pg_lsn",
      "targets text[] not null default '{}'",
      "is_unproved boolean not null default false",
    ],
  },
  {
    name: "table_shape",
    create: `create table millrace.table_shape (
  connector_id text not null,
  table_id int8 not null,
  table_schema text not null,
  table_name text not null,
  since pg_lsn not null,
  columns json not null,
  key_numbers float8[],
  primary key (connector_id, table_id)
)`,
    added: ["key_numbers float8[]", "displaced float8[]", "is_former boolean not null default false"],
  },
  {
    name: "set_aside",
    create: `create table millrace.set_aside (
  connector_id text not null,
  table_id int8 not null,
  table_schema text not null,
  table_name text not null,
  since pg_lsn not null,
  reason text not null,
  commands text[] not null,
  null_column text,
  primary key (connector_id, table_id)
)`,
    added: [],
  },
  {
    name: "made_type",
    create: `create table millrace.made_type (
  type_schema text not null,
  type_name text not null,
  primary key (type_schema, type_name)
)`,
    added: ["connector_id text", "is_shared boolean not null default false"],
  },
  {
    name: "enum_label",
    create: `create table millrace.enum_label (
  connector_id text not null,
  type_schema text not null,
  type_name text not null,
  labels json not null,
  primary key (connector_id, type_schema, type_name)
)`,
    added: [],
  },
  // Refusals of values of user-defined types: types/type-refusal.ts.
  {
    name: "type_question",
    create: `create table millrace.type_question (
  connector_id text not null,
  table_id int8 not null,
  resume_lsn pg_lsn not null,
  primary key (connector_id, table_id)
)`,
    added: [],
  },
  // Copies that have begun: copy-records.ts. `mark` is the fingerprint; `is_beside`: the copy is incremental.
  {
    name: "divided_copy",
    create: `create table millrace.divided_copy (
  connector_id text not null,
  table_id int8 not null,
  mark text not null,
  primary key (connector_id, table_id)
)`,
    added: ["is_beside boolean not null default false"],
  },
  {
    name: "copied_range",
    create: `create table millrace.copied_range (
  connector_id text not null,
  table_id int8 not null,
  first_page int8 not null,
  next_page int8,
  point_lsn pg_lsn not null,
  row_count int8 not null,
  primary key (connector_id, table_id, first_page)
)`,
    added: [],
  },
  // The keys of incomplete rows: incomplete-rows.ts.
  {
    name: "owed_row",
    create: `create table millrace.owed_row (
  connector_id text not null,
  table_id int8 not null,
  key_hash text not null,
  row_key text[] not null,
  primary key (connector_id, table_id, key_hash)
)`,
    added: ["key_names text[]"],
  },
  {
    name: "unlogged_witness",
    create: `create unlogged table millrace.unlogged_witness (
  connector_id text primary key
)`,
    added: [],
  },
  {
    name: "table_claim",
    create: `create table millrace.table_claim (
  table_schema text not null,
  table_name text not null,
  connector_id text not null,
  primary key (table_schema, table_name)
)`,
    added: [],
  },
  {
    name: "table_history",
    create: `create table millrace.table_history (
  connector_id text not null,
  table_id int8 not null,
  asked_schema text not null,
  asked_name text not null,
  history_schema text not null,
  history_name text not null,
  versions_name text,
  columns json not null,
  key_names text[] not null,
  is_begun boolean not null,
  is_reconciled boolean not null,
  primary key (connector_id, table_id)
)`,
    added: [],
  },
  {
    name: "run_term",
    create: `create table millrace.run_term (
  connector_id text primary key,
  owner text not null,
  term int8 not null
)`,
    added: [],
  },
];

/** All of these columns in one statement: each one locks the table by itself. */
export function addColumns(table: string, columns: readonly string[]): string {
  return `alter table millrace.${table} ${columns.map((column) => `add column if not exists ${column}`).join(", ")}`;
}

/** The whole table, as this version needs it. */
export function createTable({ name, create, added }: BookkeepingTable): string {
  return added.length === 0 ? `${create};` : `${create}; ${addColumns(name, added)};`;
}
