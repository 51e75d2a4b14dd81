// Goes on at another place of the log, though the sink has missed the changes before it: the slot was lost. Tables whose rows can be compared with
// the source's one by one stay, as unproved. The others are void, and copied again.

import type { Client } from "pg";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { isKeyed, type TableShape } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { hasOtherUniqueIndex, readTargetTable } from "../schema/target-table.ts";
import { type TableCopyRecord, voidCopies } from "./bookkeeping.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import type { ShapeLedger } from "./shape-ledger.ts";

/** The tables that the connector resumes with, and what is known of them. */
interface ResumedTables {
  readonly tables: readonly TableShape[];
  readonly ledger: CopyLedger;
  readonly shapes: ShapeLedger;
  readonly naming: TargetNaming;
  /** Whether a second session may read rows while the first one writes. */
  readonly canCompare: boolean;
}

/** In one transaction: until it is committed, the connector stands where it stood. */
export async function resumeAt(
  client: Client,
  connectorId: string,
  from: Lsn,
  checkpoint: Checkpoint,
  known: ResumedTables,
): Promise<void> {
  const lost: TableCopyRecord[] = [];
  for (const table of known.tables) {
    // Under the name that the table had when it was copied.
    const record = known.ledger.recordOf(table.relation);
    if (record !== null && !(await isComparable(client, table, known))) lost.push(record);
  }
  const at = formatLsn(checkpoint.resumeLsn);
  await client.query("begin");
  try {
    await moveTo(client, connectorId, from, checkpoint);
    // The log may be another one: points in the old one mean nothing there, and none may lie beyond the new checkpoint.
    await client.query(
      "update millrace.table_copy set point_lsn = $2, first_lsn = null, is_merged = false, is_unproved = true " +
        "where connector_id = $1 and point_lsn > '0/0'",
      [connectorId, at],
    );
    await client.query(
      "update millrace.table_shape set since = least(since, $2::pg_lsn) where connector_id = $1",
      [connectorId, at],
    );
    await voidCopies(client, connectorId, lost);
    // In a log that was set back, places come again that a history has already: it gets nothing until it is compared, and begins anew then.
    await client.query(
      "update millrace.table_history set is_reconciled = false, is_begun = is_begun and $2 where connector_id = $1",
      [connectorId, checkpoint.resumeLsn >= from],
    );
    // The comparison finds incomplete rows, and the next look at the tables what is to be set aside.
    for (const table of ["owed_row", "set_aside"])
      await client.query(`delete from millrace.${table} where connector_id = $1`, [connectorId]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

async function moveTo(client: Client, connectorId: string, from: Lsn, to: Checkpoint): Promise<void> {
  const { rowCount } = await client.query(
    "update millrace.checkpoint set resume_lsn = $3, last_version = greatest(last_version, $4), source_log = $5, updated_at = now() " +
      "where connector_id = $1 and resume_lsn = $2",
    [connectorId, formatLsn(from), formatLsn(to.resumeLsn), to.lastVersion.toString(), to.log ?? null],
  );
  if (rowCount === 1) return;
  throw new MillraceError(
    "sink_connection_lost",
    `The checkpoint of connector ${connectorId} is no longer at ${formatLsn(from)}: another run has moved it.`,
  );
}

/**
 * Whether each row can be compared and replaced by its key, while the stream goes on, or waits for a moment only. Beside a foreign key or
 * another unique index, a row that is out of date could keep a newer one from being written.
 */
async function isComparable(
  client: Client,
  { relation, isKeyHashed }: TableShape,
  { shapes, naming, canCompare }: ResumedTables,
): Promise<boolean> {
  if (!canCompare || !isKeyed(relation) || isKeyHashed || naming.isShared(relation)) return false;
  // The table may have been renamed while nothing was heard of it.
  const target = await readTargetTable(client, naming.target(shapes.of(relation) ?? relation));
  if (target === null || target.isReferred || target.refersTo.length > 0) return false;
  return !(await hasOtherUniqueIndex(client, target, relation));
}
