// Whether the columns that a transaction has written bytes to still have the types of these bytes. Somebody may alter them at any time, of which
// the session learns nothing, and the server takes the bytes of one type as another's: a bigint's as a numeric of another value. From its first
// write to a table on, a transaction keeps others from altering it. So what is found after that holds for all that it has written.

import type { Client } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type MovedCheckpoint, moveCheckpoint, type TableFile } from "../bookkeeping/bookkeeping.ts";
import type { TargetName } from "../schema/target-name.ts";

export interface TypedTable {
  readonly target: TargetName;
  readonly columns: readonly { readonly name: string; readonly typeOid: number }[];
}

const typesQuery = `
select w.name, pg_relation_filenode(to_regclass(w.name))::text as file, bool_and(exists (
  select from pg_attribute a where a.attrelid = to_regclass(w.name) and a.attname = w.attname and a.atttypid = w.atttypid and not a.attisdropped
)) as "isSame"
from unnest($1::text[], $2::name[], $3::oid[]) as w(name, attname, atttypid) group by w.name`;

interface TypesRow {
  readonly name: string;
  readonly file: string | null;
  readonly isSame: boolean;
}

export class WrittenBytes {
  readonly #written = new Set<TypedTable>();
  /**
   * The file that each table had when its columns had these types: the server makes another one when it converts values. A partitioned table has
   * none, and is looked at each time.
   */
  readonly #files = new WeakMap<TypedTable, TableFile>();

  /** The open transaction has written bytes to the table. */
  add(table: TypedTable): void {
    this.#written.add(table);
  }

  /** The open transaction was rolled back. */
  clear(): void {
    this.#written.clear();
  }

  /** Throws `stream_form_changed` if a column that was written has another type. */
  async check(client: Client): Promise<void> {
    const written = [...this.#written].map((table) => ({ table, of: sqlName(table.target) }));
    this.clear();
    if (written.length === 0) return;
    const columns = written.flatMap(({ table, of }) => table.columns.map((column) => ({ of, ...column })));
    const values = [
      columns.map(({ of }) => of),
      columns.map(({ name }) => name),
      columns.map((c) => c.typeOid),
    ];
    const { rows } = await client.query<TypesRow>({
      name: "millrace_written_bytes",
      text: typesQuery,
      values,
    });
    for (const { name, file, isSame } of rows) {
      if (!isSame) throw typesChanged(name);
      if (file === null) continue;
      for (const { table, of } of written) if (of === name) this.#files.set(table, { name, file });
    }
  }

  /** As the transaction's last write: `check`, and `moveCheckpoint`. Where all tables have their known files, in one statement. */
  async moveCheckpoint(client: Client, moved: MovedCheckpoint): Promise<void> {
    const files = [...this.#written].map((table) => this.#files.get(table));
    const areKnown = files.every((file) => file !== undefined);
    if (areKnown && (await moveCheckpoint(client, moved, files))) return this.clear();
    await this.check(client);
    await moveCheckpoint(client, moved);
  }
}

function typesChanged(table: string): MillraceError {
  return new MillraceError(
    "stream_form_changed",
    `${table} at the sink has got other types than the source's: text from here on.`,
  );
}
