// Whether the topics of a connector in native form hold each change of its tables exactly once, in the order of its key. The source notes
// every change in a log of its own, and stamps every row that it writes, so that each message can be found there.

import type { KafkaCluster } from "./kafka-cluster.ts";
import { readTopic, type TopicMessage } from "./kafka-reader.ts";

export const oracleSql = `
create schema audit;
create sequence audit.stamp;
create table audit.log (seq bigserial primary key, tbl text not null, id int not null, op text not null, n int8 not null);
create function audit.stamp() returns trigger language plpgsql as $$ begin new.n := nextval('audit.stamp'); return new; end $$;
create function audit.note() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and new.id <> old.id) then
    insert into audit.log (tbl, id, op, n) values (tg_table_name, old.id, 'd', old.n);
  end if;
  if tg_op <> 'DELETE' then insert into audit.log (tbl, id, op, n) values (tg_table_name, new.id, 'w', new.n); end if;
  return null;
end $$;
create table nudge (id int primary key, n int not null);
insert into nudge values (1, 0);`;

/** Of a connector: what the oracle writes is not sent. */
export const oracleCatalog = {
  default_action: "Include",
  schemas: [{ name: "audit", action: "Exclude", tables: [] }],
};

/** A table that the oracle knows, with rows 1 to `rows`. */
export function oracleTableSql(table: string, rows: number): string {
  return `create table ${table} (id int primary key, n int8 not null, v int8 not null default 0, pad text);
    create trigger stamp before insert or update on ${table} for each row execute function audit.stamp();
    create trigger note after insert or update or delete on ${table} for each row execute function audit.note();
    insert into ${table} select i, 0, 0, repeat('x', i % 50) from generate_series(1, ${rows}) i;`;
}

interface Change {
  readonly seq: number;
  /** Null: the row is deleted. */
  readonly n: number | null;
}

interface Row {
  readonly id: number;
  readonly n: number;
  readonly v: number;
  readonly pad: string | null;
}

export interface OracleOptions {
  /** Of the log: changes of a table behind it have to be there, be their key never copied. None: every change since its first one. */
  readonly since?: Readonly<Record<string, number>>;
  /** Messages may come again, with the same Idempotency-Key and value. */
  readonly atLeastOnce?: boolean;
  readonly topic?: (table: string) => string;
}

export interface OracleReport {
  readonly messages: number;
  readonly changes: number;
  /** Rows of copies that bring what is there already. */
  readonly copiedAgain: number;
  /** Keys whose first copy was broken off, went on later, and so brought a change before the stream did, which follows as a whole. */
  readonly copiedAhead: number;
  /** Messages that came again. */
  readonly repeated: number;
}

type Query = <R extends object>(sql: string) => Promise<R[]>;

/** Call it when nothing is under way. Throws what is wrong, the first few of it. */
export async function checkTopics(
  cluster: KafkaCluster,
  query: Query,
  tables: readonly string[],
  options: OracleOptions = {},
): Promise<OracleReport> {
  const total = { messages: 0, changes: 0, copiedAgain: 0, copiedAhead: 0, repeated: 0 };
  const wrong: string[] = [];
  for (const table of tables) {
    const topic = options.topic?.(table) ?? `millrace.public.${table}`;
    const all = await readTopic(cluster, topic, { isolation: "read_committed" });
    const log = await query<{ seq: string; id: number; op: string; n: string }>(
      `select seq, id, op, n from audit.log where tbl = '${table}' order by seq`,
    );
    const rows = await query<Row>(`select id, n::float8 as n, v::float8 as v, pad from ${table}`);
    const changes = Map.groupBy(log, ({ id }) => id);
    const messages = options.atLeastOnce ? withoutRepetitions(all, wrong, total) : all;
    requireUnique(messages, table, wrong);
    const byKey = Map.groupBy(messages, ({ key }) => (JSON.parse(String(key)) as { id: number }).id);
    const current = new Map(rows.map((row) => [row.id, row]));
    for (const id of new Set([...changes.keys(), ...byKey.keys(), ...current.keys()])) {
      const ofKey = (changes.get(id) ?? []).map(({ seq, op, n }) => ({
        seq: Number(seq),
        n: op === "d" ? null : Number(n),
      }));
      const key = new KeyCheck(ofKey, byKey.get(id) ?? [], options.since?.[table] ?? 0, options.atLeastOnce);
      const problem = key.problem(current.get(id) ?? null);
      if (problem !== null)
        wrong.push(`${table} ${id}: ${problem}\n  log ${key.toldChanges}\n  topic ${key.toldMessages}`);
      total.copiedAgain += key.copiedAgain;
      total.copiedAhead += key.isCopiedAhead ? 1 : 0;
    }
    total.messages += all.length;
    total.changes += log.length;
  }
  if (wrong.length > 0) throw new Error(`${wrong.length} wrong: ${wrong.slice(0, 5).join("\n")}`);
  return total;
}

class KeyCheck {
  copiedAgain = 0;
  isCopiedAhead = false;
  /** How far the log and the topic agree, by the reading that goes the farthest. */
  #agreed = { rows: 0, changes: 0 };
  readonly #messages: readonly { readonly row: (Row & { version: number; deleted: boolean }) | null }[];

  constructor(
    private readonly changes: readonly Change[],
    private readonly raw: readonly TopicMessage[],
    private readonly since: number,
    private readonly isLoose = false,
  ) {
    this.#messages = raw.map(({ value }) => {
      if (value === null) return { row: null };
      const row = JSON.parse(value.toString()) as Row & { _sm_version: number; _sm_deleted: boolean };
      return { row: { ...row, version: row._sm_version, deleted: row._sm_deleted } };
    });
  }

  /** Around the first one that is wrong. */
  get toldChanges(): string {
    return around(
      this.changes.map(({ seq, n }) => `${n ?? "d"}#${seq}`),
      this.#agreed.changes,
    );
  }

  /** Around the first one that is wrong. */
  get toldMessages(): string {
    const text = this.#messages.map(({ row }, i) => {
      const what = row === null ? "tombstone" : row.deleted ? "d" : String(row.n);
      return `${this.raw[i]!.partition}/${this.raw[i]!.offset}:${what}@${row?.version ?? ""}`;
    });
    const rows = this.#messages.flatMap(({ row }, i) => (row ? [i] : []));
    return around(text, rows[this.#agreed.rows] ?? text.length);
  }

  problem(current: Row | null): string | null {
    const partitions = new Set(this.raw.map(({ partition }) => partition));
    if (partitions.size > 1) return "it is in several partitions";
    return this.#orderProblem() ?? this.#sequenceProblem() ?? this.#endProblem(current);
  }

  #orderProblem(): string | null {
    let version = 0;
    for (const [index, { row }] of this.#messages.entries()) {
      const before = this.#messages[index - 1]?.row;
      if (row === null) {
        if (!this.isLoose && !before?.deleted) return "a tombstone without its delete";
        continue;
      }
      if (!this.isLoose && row.deleted && this.#messages[index + 1]?.row !== null)
        return "a delete without its tombstone";
      if (row.version <= version) return `version ${row.version} after ${version}`;
      version = row.version;
    }
    return null;
  }

  #sequenceProblem(): string | null {
    const rows = this.#messages.flatMap(({ row }) => (row ? [row] : []));
    const first = rows[0];
    const isNeeded = (from: number) => this.changes.slice(0, from).some(({ seq }) => seq > this.since);
    if (!first) {
      const isSilent = this.changes.at(-1)?.n === null || this.changes.length === 0;
      return isSilent && (this.since === 0 || !isNeeded(this.changes.length)) ? null : "nothing is there";
    }
    const starts = this.changes.flatMap(({ n }, index) =>
      (first.deleted ? n === null : n === first.n) ? [index] : [],
    );
    let problem: string | null = "its first message is no change";
    for (const start of starts) {
      if (this.since > 0 && !this.#isCopied(start, first.deleted) && isNeeded(start)) continue;
      const before = this.#agreed.rows;
      const other = this.#problemFrom(start, rows);
      if (other === null) return null;
      if (this.#agreed.rows > before) problem = other;
    }
    return this.#isAhead(rows) ? null : problem;
  }

  /** The first row is one of a copy, ahead of the stream, whose changes follow without a gap. */
  #isAhead(rows: readonly { n: number; deleted: boolean }[]): boolean {
    const indexOf = (n: number) => this.changes.findIndex((change) => change.n === n);
    for (let ahead = 1; ahead <= 3 && ahead < rows.length; ahead++) {
      if (rows[ahead - 1]!.deleted) return false;
      const last = indexOf(rows[ahead - 1]!.n);
      const { n, deleted } = rows[ahead]!;
      const starts = this.changes.flatMap((change, index) =>
        index <= last && (deleted ? change.n === null : change.n === n) ? [index] : [],
      );
      this.isCopiedAhead = starts.some((start) => this.#problemFrom(start, rows, ahead) === null);
      if (this.isCopiedAhead) return true;
    }
    return false;
  }

  /** The first message may be a row as it was copied, and bring several changes at once. */
  #isCopied(start: number, isDeleted: boolean): boolean {
    return !isDeleted && (this.changes[start]?.seq ?? 0) <= this.since;
  }

  /** The rows from `from` on, held to the changes from `start` on. */
  #problemFrom(start: number, rows: readonly { n: number; deleted: boolean }[], from = 0): string | null {
    let at = start - 1;
    let again = 0;
    for (let i = from; i < rows.length; i++) {
      const { n, deleted } = rows[i]!;
      const next = this.changes[at + 1];
      if (next && (deleted ? next.n === null : next.n === n)) at++;
      else if (!deleted && this.changes[at]?.n === n) again++;
      else {
        this.#agreesTo(i, at);
        return `${deleted ? "a delete" : n} where ${next ? (next.n ?? "a delete") : "the end"} should be`;
      }
    }
    this.#agreesTo(rows.length, at);
    if (at !== this.changes.length - 1) return `the last ${this.changes.length - 1 - at} changes are missing`;
    this.copiedAgain = again;
    return null;
  }

  #agreesTo(rows: number, changes: number): void {
    if (rows > this.#agreed.rows) this.#agreed = { rows, changes };
  }

  #endProblem(current: Row | null): string | null {
    const last = this.#messages.findLast(({ row }) => row !== null)?.row;
    const isThere = last && !last.deleted;
    if (!current) return isThere ? "it is there, and not at the source" : null;
    if (!isThere) return "it is at the source, and not there";
    const isSame = last.n === current.n && last.v === current.v && last.pad === current.pad;
    return isSame ? null : `${JSON.stringify(last)} instead of ${JSON.stringify(current)}`;
  }
}

function around(texts: readonly string[], at: number): string {
  return texts.slice(Math.max(0, at - 30), at + 30).join(" ");
}

function idempotencyKey({ headers }: TopicMessage): string | null {
  const found = headers.find(([name]) => name === "Idempotency-Key")?.[1];
  return found ? found.toString() : null;
}

function requireUnique(messages: readonly TopicMessage[], table: string, wrong: string[]): void {
  const seen = new Map<string, TopicMessage>();
  for (const message of messages) {
    const key = idempotencyKey(message);
    if (key === null) continue;
    const before = seen.get(key);
    if (before)
      wrong.push(
        `${table}: ${message.value} is twice, at ${before.partition}/${before.offset} and ${message.partition}/${message.offset}`,
      );
    seen.set(key, message);
  }
}

/** The first of those that came several times; tombstones are left as they are. */
function withoutRepetitions(
  messages: readonly TopicMessage[],
  wrong: string[],
  total: { repeated: number },
): TopicMessage[] {
  const seen = new Map<string, TopicMessage>();
  return messages.filter((message) => {
    const key = idempotencyKey(message);
    if (key === null) return true;
    const before = seen.get(key);
    if (!before) {
      seen.set(key, message);
      return true;
    }
    total.repeated++;
    if (String(before.value) !== String(message.value))
      wrong.push(`${message.value} came again as ${before.value} under one Idempotency-Key`);
    return false;
  });
}
