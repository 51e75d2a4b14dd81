// The SQL that creates millrace's own tables in the target database, where they are missing. The files that read and write a table say what
// is in it.

export const bookkeepingSql = `
create schema if not exists millrace;
create table if not exists millrace.checkpoint (
  connector_id text primary key,
  resume_lsn pg_lsn not null,
  last_version int8 not null,
  source_log text,
  updated_at timestamptz not null default now()
) with (fillfactor = 20);
create table if not exists millrace.table_copy (
  connector_id text not null,
  table_schema text not null,
  table_name text not null,
  table_identity text not null,
  point_lsn pg_lsn not null,
  is_merged boolean not null,
  copied_at timestamptz not null default now(),
  primary key (connector_id, table_schema, table_name)
);
alter table millrace.checkpoint add column if not exists source_log text;
create table if not exists millrace.table_shape (
  connector_id text not null,
  table_id int8 not null,
  table_schema text not null,
  table_name text not null,
  since pg_lsn not null,
  columns json not null,
  key_numbers float8[],
  primary key (connector_id, table_id)
);
alter table millrace.table_shape add column if not exists key_numbers float8[];
alter table millrace.table_shape add column if not exists displaced float8[];
create table if not exists millrace.set_aside (
  connector_id text not null,
  table_id int8 not null,
  table_schema text not null,
  table_name text not null,
  since pg_lsn not null,
  reason text not null,
  commands text[] not null,
  null_column text,
  primary key (connector_id, table_id)
);
create table if not exists millrace.made_type (
  type_schema text not null,
  type_name text not null,
  primary key (type_schema, type_name)
);
alter table millrace.made_type add column if not exists connector_id text;
alter table millrace.made_type add column if not exists is_shared boolean not null default false;
create table if not exists millrace.enum_label (
  connector_id text not null,
  type_schema text not null,
  type_name text not null,
  labels json not null,
  primary key (connector_id, type_schema, type_name)
);
create table if not exists millrace.type_question (
  connector_id text not null,
  table_id int8 not null,
  resume_lsn pg_lsn not null,
  primary key (connector_id, table_id)
);
create table if not exists millrace.divided_copy (
  connector_id text not null,
  table_id int8 not null,
  mark text not null,
  primary key (connector_id, table_id)
);
create table if not exists millrace.copied_range (
  connector_id text not null,
  table_id int8 not null,
  first_page int8 not null,
  next_page int8,
  point_lsn pg_lsn not null,
  row_count int8 not null,
  primary key (connector_id, table_id, first_page)
);
create table if not exists millrace.owed_row (
  connector_id text not null,
  table_id int8 not null,
  key_hash text not null,
  row_key text[] not null,
  primary key (connector_id, table_id, key_hash)
);
alter table millrace.owed_row add column if not exists key_names text[];
alter table millrace.divided_copy add column if not exists is_beside boolean not null default false;
alter table millrace.table_copy add column if not exists first_lsn pg_lsn;
alter table millrace.table_copy add column if not exists targets text[] not null default '{}';
alter table millrace.table_copy add column if not exists is_unproved boolean not null default false;
create unlogged table if not exists millrace.unlogged_witness (
  connector_id text primary key
);
create table if not exists millrace.table_claim (
  table_schema text not null,
  table_name text not null,
  connector_id text not null,
  primary key (table_schema, table_name)
);
create table if not exists millrace.table_history (
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
);
create table if not exists millrace.run_term (
  connector_id text primary key,
  owner text not null,
  term int8 not null
)`;
