// Random changes of a table `t`, of which a trigger notes what a webhook is to get. Each change writes a number of its own, so that what
// arrived can be compared with what was noted, one by one.

import type { Client } from "pg";

export const auditedSchema = `
  create table t (id int primary key, n int not null); alter table t replica identity full;
  create schema audit; create sequence audit.n; create table audit.sent (id int, n int, deleted bool);
  create function audit.note() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' or (tg_op = 'UPDATE' and old.id <> new.id) then
      insert into audit.sent values (old.id, old.n, true);
    end if;
    if tg_op <> 'DELETE' then insert into audit.sent values (new.id, new.n, false); end if;
    return null;
  end $$;
  create trigger note after insert or update or delete on t for each row execute function audit.note()`;

/** A row as it is noted, and as it is sent. */
export interface SentRow {
  readonly [column: string]: unknown;
  readonly id: number;
  readonly n: number;
  readonly deleted: boolean;
}

export const random = (below: number) => Math.floor(Math.random() * below);

function changeSql(): string {
  const id = random(40);
  const next = "nextval('audit.n')::int";
  switch (random(6)) {
    case 0:
      return `delete from t where id = ${id}`;
    case 1:
      return `update t set id = 1000 + ${next}, n = ${next} where id = ${id}`;
    default:
      return `insert into t values (${id}, ${next}) on conflict (id) do update set n = ${next}`;
  }
}

/** Small transactions at uneven distances, until `signal`. */
export async function writeUntil(signal: AbortSignal, client: Client): Promise<void> {
  while (!signal.aborted) {
    const changes = Array.from({ length: 1 + random(4) }, changeSql);
    await client.query(`begin; ${changes.join("; ")}; commit`);
    await Bun.sleep(random(12));
  }
}

/** In the order of their numbers; of a row that is moved its removal comes last. */
export function inSourceOrder(rows: readonly SentRow[]): SentRow[] {
  return rows.toSorted((a, b) => a.n - b.n || Number(a.deleted) - Number(b.deleted));
}
