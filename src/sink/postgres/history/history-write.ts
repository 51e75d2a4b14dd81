// Writes rows of a history, in the transaction of the changes that they tell of and before these: the table still has its rows as they were.

import { type Client, escapeIdentifier } from "pg";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import { formatLsn, lsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { MergeSession } from "../apply/merge-session.ts";
import { describeDenial } from "../checks/privileges.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { HistoryRefused } from "../refusals/history-refused.ts";
import { describeRefusedRows } from "../refusals/refused-rows.ts";
import { isTypeRefused } from "../refusals/refused-table.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import { timeText } from "./history-body.ts";
import { historyColumnNames } from "./history-naming.ts";
import { HistoryRows, type StagedGroup } from "./history-rows.ts";
import type { PreparedHistory, PreparedHistoryColumn } from "./prepared-history.ts";

/** `movedFrom`: the rows are of one change of key, and what it did not send is under the key of the row that this group deletes. */
export async function writeHistory(
  session: MergeSession,
  history: PreparedHistory,
  rows: HistoryRows,
  movedFrom: StagedGroup | null = null,
): Promise<void> {
  const { client, form, written } = session;
  await withHistoryErrors(client, history, async () => {
    if (rows.direct.rows > 0) {
      const copy = `copy ${sqlName(history.name)} (${columnList(history)}) from stdin (format ${form})`;
      await copyIn(client, copy, rows.direct.chunks());
      if (form === "binary") written.add(history.stored);
    }
    if (rows.staged.rows === 0) return;
    await stage(session, history, rows);
    for (const group of rows.groups) {
      const isMoved = movedFrom !== null && group !== movedFrom;
      await client.query(fillSql(history, group, isMoved ? movedFrom : group));
    }
  });
  rows.release();
}

/** Writes the rows of a change that cannot be folded with others. */
export async function writeSingle(
  session: MergeSession,
  history: PreparedHistory,
  batch: ChangeBatch,
  i: number,
): Promise<void> {
  const rows = new HistoryRows(batch, history, session.form);
  rows.add(i, { row: null, before: null, moves: true });
  const deleted = rows.groups.find(({ op }) => op === "d") ?? null;
  await writeHistory(session, history, rows, deleted);
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

/** Classes of errors that a history gives which somebody has altered: of data, of constraints, of names and types; or whose row is too wide with its own columns. */
const refusing = /^(22|23|42|54)/;

async function withHistoryErrors(
  client: Client,
  { name, columns }: PreparedHistory,
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
    // A history has its table's types, so that the table would refuse the value as well, and what mends the table mends the history. Where somebody
    // has altered the history, the next run finds that before it writes.
    if (isTypeRefused(error)) throw describeRefusedRows(error, name, byPlace(columns));
    throw new HistoryRefused(name, error);
  }
}

/** The columns' names, each at its index in the relation. */
function byPlace(columns: readonly PreparedHistoryColumn[]): readonly string[] {
  const names: string[] = [];
  for (const { at, name } of columns) names[at] = name;
  return names;
}

function columnList({ columns }: PreparedHistory): string {
  return sqlList([...columns.map(({ name }) => name), ...historyColumnNames]);
}

async function stage(session: MergeSession, history: PreparedHistory, rows: HistoryRows): Promise<void> {
  const { client, form, staging } = session;
  const name = history.staging;
  const known = staging.get(name);
  if (!known) await client.query(createStagingSql(history));
  else if (known.dirty) await client.query(`truncate pg_temp.${name}`);
  staging.set(name, { dirty: true, outlivesRollback: known?.outlivesRollback ?? false });
  await copyIn(client, `copy pg_temp.${name} from stdin (format ${form})`, rows.staged.chunks());
}

function createStagingSql({ columns, staging }: PreparedHistory): string {
  const values = columns.map(({ at, plainType }) => `c${at} ${plainType}`);
  const own = ["g int4", "at timestamptz", "lsn pg_lsn", "ord int8"];
  return `create temporary table ${staging} (${[...values, ...own].join(", ")}) on commit delete rows`;
}

/**
 * Appends the staged rows of a group, with the missing values from the row that the history had last before them; where it has none, from the table's.
 * Of a column that has begun anew, the history's rows from before have no values: those of the table go first. `by`: the group whose rows have the
 * keys of those. What neither has is null.
 */
function fillSql(history: PreparedHistory, { number, op, missing }: StagedGroup, by: StagedGroup): string {
  const staged = `pg_temp.${history.staging}`;
  const isOwn = by.number === number;
  const [keys, key] = isOwn ? [`${staged} n`, "n"] : [`${staged} n, ${staged} s`, "s"];
  const found = ({ name, isBegunAnew }: PreparedHistoryColumn) => {
    const column = escapeIdentifier(name);
    if (history.rows === null) return `h.${column}`;
    if (isBegunAnew) return `coalesce(t.${column}, h.${column})`;
    return `case when h._sm_op is null then t.${column} else h.${column} end`;
  };
  const isMissing = ({ at }: PreparedHistoryColumn) => missing.includes(at);
  const values = history.columns.map((column) => (isMissing(column) ? found(column) : `n.c${column.at}`));
  const unlessInHistory = history.columns.some((column) => column.isBegunAnew && isMissing(column))
    ? ""
    : "h._sm_op is null and ";
  const before =
    `left join lateral (select * from ${sqlName(history.name)} h where ${keyMatch(history, "h", key)} ` +
    "and (h._sm_lsn, h._sm_ordinal) < (n.lsn, n.ord) order by h._sm_lsn desc, h._sm_ordinal desc limit 1) h on true ";
  const inTable =
    history.rows === null
      ? ""
      : `left join lateral (select * from ${history.rows} t where ${unlessInHistory}${keyMatch(history, "t", key)} limit 1) t on true `;
  return (
    `insert into ${sqlName(history.name)} (${columnList(history)}) ` +
    `select ${[...values, `'${op}'`, "n.at", "n.lsn", "n.ord"].join(", ")} from ${keys} ${before}${inTable}` +
    `where n.g = ${number}${isOwn ? "" : ` and s.g = ${by.number}`}`
  );
}

function keyMatch({ key, columns }: PreparedHistory, of: string, staged: string): string {
  const matches = columns
    .filter(({ at }) => key.includes(at))
    .map(({ at, name, indexed }) => equalSql(indexed, `${of}.${escapeIdentifier(name)}`, `${staged}.c${at}`));
  // Without a key nothing tells which row it was.
  return matches.join(" and ") || "false";
}
