// A random load on tables that have a history: transactions of any changes, alterations, and at random moments a record of the tables as they
// are, with the place of the log. A log of changes, which triggers keep at the source, tells what the histories must have.

import type { Client } from "pg";

export interface PlayedTable {
  readonly name: string;
  readonly key: readonly string[];
}

/** `one`: a plain key. `two`: a key of two columns, and a large value that most updates leave alone. */
export const playedTables: readonly PlayedTable[] = [
  { name: "one", key: ["id"] },
  { name: "two", key: ["a", "b"] },
];

export const playSchema = `
create schema audit;
create table audit.change (seq bigserial primary key, tbl text, op text, key text, v text);
create table one (id int primary key, v text not null, n int);
create table two (a int, b text, v text not null, big text, n int, primary key (a, b));
alter table two alter column big set storage external;
create function audit.note() returns trigger language plpgsql as $$
declare old_key text; new_key text;
begin
  if tg_op = 'TRUNCATE' then
    insert into audit.change (tbl, op) values (tg_table_name, 't');
    return null;
  end if;
  if tg_table_name = 'one' then
    if tg_op <> 'INSERT' then old_key := old.id::text; end if;
    if tg_op <> 'DELETE' then new_key := new.id::text; end if;
  else
    if tg_op <> 'INSERT' then old_key := old.a || '|' || old.b; end if;
    if tg_op <> 'DELETE' then new_key := new.a || '|' || new.b; end if;
  end if;
  if tg_op = 'DELETE' or tg_op = 'UPDATE' and old_key <> new_key then
    insert into audit.change (tbl, op, key, v) values (tg_table_name, 'd', old_key, old.v);
  end if;
  if tg_op <> 'DELETE' then
    insert into audit.change (tbl, op, key, v) values (tg_table_name, case tg_op when 'INSERT' then 'c' else 'u' end, new_key, new.v);
  end if;
  return null;
end $$;
create trigger note after insert or update or delete on one for each row execute function audit.note();
create trigger note after insert or update or delete on two for each row execute function audit.note();
create trigger cut after truncate on one execute function audit.note();
create trigger cut after truncate on two execute function audit.note();
insert into one select g, 'first' || g, g from generate_series(1, 30) g;
insert into two select g, 'k' || g, 'first' || g, repeat(md5(g::text), 200), g from generate_series(1, 30) g`;

/** A table as it was, at a place of the log. */
export interface Recorded {
  readonly table: string;
  readonly lsn: bigint;
  /** By the source's clock, in microseconds since 1970. */
  readonly timeUs: bigint;
  /** The columns' numbers, in the order of the values. */
  readonly columns: readonly number[];
  /** The rows' values as text, sorted. */
  readonly rows: readonly string[];
}

/** Who writes shares a lock. Who records or alters has it alone, between the transactions of the others. */
const write = "select pg_advisory_xact_lock_shared(1)";
const alone = "select pg_advisory_xact_lock(1)";

export class HistoryLoad {
  readonly recorded: Recorded[] = [];
  #next = 0;

  constructor(private readonly random: () => number) {}

  /** One transaction. A statement that another session's work refuses undoes it. */
  async change(client: Client): Promise<void> {
    const count = this.#upTo(20) === 0 ? 40 : 1 + this.#upTo(5);
    const isEach = this.#upTo(3) === 0;
    const statements = Array.from({ length: count }, () => this.#statement());
    try {
      const transactions = isEach ? statements.map((sql) => [sql]) : [statements];
      for (const each of transactions) await client.query(["begin", write, ...each, "commit"].join("; "));
    } catch {
      await client.query("rollback");
    }
  }

  /** Columns get names that no column had before, so that each can be told from all others. */
  async alter(client: Client): Promise<void> {
    const { name: table } = this.#table();
    const { rows } = await client.query<{ name: string; type: string }>(
      `select attname as name, format_type(atttypid, null) as type from pg_attribute
       where attrelid = $1::regclass and attnum > 0 and not attisdropped and attname ~ '^(n|x)' order by attnum`,
      [table],
    );
    const picked = rows[this.#upTo(rows.length)];
    const fresh = `x${++this.#next}`;
    const wider: Readonly<Record<string, string>> = { integer: "bigint", bigint: "text" };
    const sql = [
      `add column ${fresh} int`,
      `add column ${fresh} text default 'given ${fresh}'`,
      ...(picked && rows.length > 1
        ? [`drop column ${picked.name}`, `rename column ${picked.name} to ${fresh}`]
        : []),
      ...(picked && wider[picked.type] ? [`alter column ${picked.name} type ${wider[picked.type]}`] : []),
    ];
    await client.query(`begin; ${alone}; alter table ${table} ${sql[this.#upTo(sql.length)]}; commit`);
  }

  /** Nobody writes to the tables meanwhile, so that the place is between two of their transactions. */
  async record(client: Client): Promise<void> {
    const names = playedTables.map(({ name }) => name);
    await client.query(`begin; ${alone}`);
    const { rows: places } = await client.query<{ lsn: string; us: string }>(
      "select (pg_current_wal_insert_lsn() - '0/0')::text as lsn, (extract(epoch from clock_timestamp()) * 1000000)::int8::text as us",
    );
    const place = { lsn: BigInt(places[0]!.lsn), timeUs: BigInt(places[0]!.us) };
    for (const table of names) {
      const { rows: columns } = await client.query<{ name: string; number: number }>(
        "select attname as name, attnum as number from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum",
        [table],
      );
      const values = columns.map(({ name }) => `${name}::text`).join(", ");
      const { rows } = await client.query<{ row: string }>(
        `select array[${values}]::text as row from ${table}`,
      );
      this.recorded.push({
        ...place,
        table,
        columns: columns.map(({ number }) => number),
        rows: rows.map(({ row }) => row).sort(),
      });
    }
    await client.query("commit");
  }

  #statement(): string {
    const isOne = this.#upTo(2) === 0;
    const v = `'v${++this.#next}'`;
    const [id, other] = [this.#upTo(40), this.#upTo(40)];
    const key = (n: number) => (isOne ? `id = ${n}` : `a = ${n} and b = 'k${n}'`);
    const name = isOne ? "one" : "two";
    const moved = isOne ? `id = ${other}` : `a = ${other}, b = 'k${other}'`;
    const big = `repeat(md5(${v}), ${this.#upTo(4) === 0 ? 200 : 1})`;
    const insert = isOne
      ? `insert into one (id, v) values (${id}, ${v}) on conflict do nothing`
      : `insert into two (a, b, v, big) values (${id}, 'k${id}', ${v}, ${big}) on conflict do nothing`;
    switch (this.#upTo(14)) {
      case 0:
      case 1:
      case 2:
        return insert;
      case 3:
      case 4:
        return `delete from ${name} where ${key(id)}`;
      case 5:
        return `delete from ${name} where ${key(id)}; ${insert}`;
      case 6:
      case 7:
        return `update ${name} set ${moved}, v = ${v} where ${key(id)} and not exists (select from ${name} where ${key(other)})`;
      case 8:
        return isOne
          ? `update one set v = ${v} where ${key(id)}`
          : `update two set big = ${big}, v = ${v} where ${key(id)}`;
      case 9:
        return this.#upTo(25) === 0 ? `truncate ${this.#upTo(2) === 0 ? name : "one, two"}` : insert;
      default:
        return `update ${name} set v = ${v} where ${key(id)}`;
    }
  }

  #table(): PlayedTable {
    return playedTables[this.#upTo(playedTables.length)]!;
  }

  #upTo(most: number): number {
    return Math.floor(this.random() * most);
  }
}
