// Writes rows of a history, in the transaction of the changes that they tell of and before these: the table still has its rows as they were.

import { type Client, escapeIdentifier } from "pg";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import { formatLsn, lsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { copyIn } from "../apply/copy-in.ts";
import type { MergeSession } from "../apply/merge-session.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import { describeDenial } from "../checks/privileges.ts";
import { HistoryRefused } from "../refusals/history-refused.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import { timeText } from "./history-body.ts";
import { historyColumnNames } from "./history-naming.ts";
import { HistoryRows, type StagedGroup } from "./history-rows.ts";
import type { PreparedHistory } from "./prepared-history.ts";

/** `movedFrom`: the rows are of one change of key, and what it did not send is under the key of the row that this group deletes. */
export async function writeHistory(
  session: MergeSession,
  table: PreparedTable,
  history: PreparedHistory,
  rows: HistoryRows,
  movedFrom: StagedGroup | null = null,
): Promise<void> {
  const { client, form } = session;
  await withHistoryErrors(client, history, async () => {
    if (rows.direct.rows > 0) {
      const copy = `copy ${sqlName(history.name)} (${columnList(table, history)}) from stdin (format ${form})`;
      await copyIn(client, copy, rows.direct.chunks());
    }
    if (rows.staged.rows === 0) return;
    await stage(session, table, history, rows);
    for (const group of rows.groups) {
      const isMoved = movedFrom !== null && group !== movedFrom;
      await client.query(fillSql(table, history, group, isMoved ? movedFrom : group));
    }
  });
  rows.release();
}

/** Writes the rows of a change that is applied by itself. */
export async function writeSingle(
  session: MergeSession,
  table: PreparedTable,
  history: PreparedHistory,
  batch: ChangeBatch,
  i: number,
): Promise<void> {
  const rows = new HistoryRows(batch, history, session.form);
  rows.add(i, { row: null, before: null, moves: true });
  const deleted = rows.groups.find(({ op }) => op === "d") ?? null;
  await writeHistory(session, table, history, rows, deleted);
}

/** In the open transaction: the table was truncated by change `i`. */
export async function writeTruncated(
  { client }: MergeSession,
  history: PreparedHistory,
  { transaction, transactions, ordinal }: ChangeBatch,
  i: number,
): Promise<void> {
  const of = transaction[i]!;
  const sql = `insert into ${sqlName(history.name)} (${sqlList(historyColumnNames)}) values ('t', $1, $2, $3)`;
  const place = [timeText(transactions.commitTimeUs[of]!), formatLsn(lsn(transactions.commitLsn[of]!))];
  await withHistoryErrors(client, history, () => client.query(sql, [...place, ordinal[i]! * 2]));
}

/** Classes of errors that a history gives which somebody has altered: of data, of constraints, of names and types. */
const refusing = /^(22|23|42)/;

async function withHistoryErrors(
  client: Client,
  { name }: PreparedHistory,
  action: () => Promise<unknown>,
): Promise<void> {
  try {
    await action();
  } catch (error) {
    const denial = describeDenial(error, client.user, name);
    if (denial) throw denial;
    const code = sqlStateOf(error) ?? "";
    // It was dropped, or a column of it was: it is read again then.
    const isGone = code === sqlState.undefinedTable || code === sqlState.undefinedColumn;
    if (isGone || !refusing.test(code)) throw error;
    throw new HistoryRefused(name, error);
  }
}

function columnList(table: PreparedTable, { columns }: PreparedHistory): string {
  return sqlList([...columns.map((i) => table.columnNames[i]!), ...historyColumnNames]);
}

async function stage(
  session: MergeSession,
  table: PreparedTable,
  history: PreparedHistory,
  rows: HistoryRows,
): Promise<void> {
  const { client, form, staging } = session;
  const name = stagingName(table);
  const known = staging.get(name);
  if (!known) await client.query(createStagingSql(table, history));
  else if (known.dirty) await client.query(`truncate pg_temp.${name}`);
  staging.set(name, { dirty: true, outlivesRollback: known?.outlivesRollback ?? false });
  await copyIn(client, `copy pg_temp.${name} from stdin (format ${form})`, rows.staged.chunks());
}

function stagingName({ staging }: PreparedTable): string {
  return `${staging}_h`;
}

function createStagingSql(table: PreparedTable, { columns }: PreparedHistory): string {
  const values = columns.map((i) => `c${i} ${table.columns[i]!.plainType}`);
  const own = ["g int4", "at timestamptz", "lsn pg_lsn", "ord int8"];
  return `create temporary table ${stagingName(table)} (${[...values, ...own].join(", ")}) on commit delete rows`;
}

/**
 * Appends the staged rows of a group, with the missing values from the table's rows. `by`: the group whose rows have the keys of those. A row that the
 * table lacks leaves them null.
 */
function fillSql(
  table: PreparedTable,
  history: PreparedHistory,
  { number, op, missing }: StagedGroup,
  by: StagedGroup,
): string {
  const name = `pg_temp.${stagingName(table)}`;
  const values = history.columns.map((i) =>
    missing.includes(i) ? `t.${escapeIdentifier(table.columnNames[i]!)}` : `n.c${i}`,
  );
  const isOwn = by.number === number;
  const keys = isOwn ? `${name} n` : `${name} n, ${name} s`;
  const condition = isOwn ? `n.g = ${number}` : `n.g = ${number} and s.g = ${by.number}`;
  return (
    `insert into ${sqlName(history.name)} (${columnList(table, history)}) ` +
    `select ${[...values, `'${op}'`, "n.at", "n.lsn", "n.ord"].join(", ")} from ${keys} ` +
    `left join lateral (select * from ${table.ownRows} t where ${keyMatch(table, isOwn ? "n" : "s")} limit 1) t on true ` +
    `where ${condition}`
  );
}

function keyMatch({ key, columns }: PreparedTable, staged: string): string {
  return key
    .map((i) => equalSql(columns[i]!.indexed, `t.${escapeIdentifier(columns[i]!.name)}`, `${staged}.c${i}`))
    .join(" and ");
}
