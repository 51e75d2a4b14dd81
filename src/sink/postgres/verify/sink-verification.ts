// Opens tables of the sink for their comparison with the source. Between two batches, so that their rows are those of one place of the stream.

import { type Client, escapeLiteral } from "pg";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import { closeClient } from "../../../connection/postgres-client.ts";
import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkContext } from "../../sink.ts";
import type { SinkRows, VerifySink } from "../../verify-sink.ts";
import type { ApplySession } from "../apply-session.ts";
import { resumeAt } from "../bookkeeping/resumption.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { hasOtherUniqueIndex, readTargetTable, tableMissing } from "../schema/target-table.ts";
import { openCopySession } from "../sink-session.ts";
import type { SinkTables } from "../sink-tables.ts";
import { comparedColumns } from "./compared-columns.ts";
import { type OpenedTable, SinkSnapshot } from "./sink-snapshot.ts";

const lockWaitMs = 1_000;

export class SinkVerification implements VerifySink {
  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
  ) {}

  async resume(checkpoint: Checkpoint, tables: readonly TableShape[]): Promise<void> {
    const { ledger, shapes } = this.tables;
    const canCompare = !hasOneSession(this.config.connection);
    // `prepare`, which tells what shares a target, comes later.
    this.naming.claim(tables);
    await this.apply.guard(async (client) => {
      await this.tables.dropBegun(client);
      const known = { tables, ledger, shapes, naming: this.naming, canCompare };
      await resumeAt(client, this.context.connectorId, this.apply.resumeLsn(), checkpoint, known);
      await this.apply.readAgain(client);
    });
  }

  async open(table: TableShape, stop: AbortSignal): Promise<SinkRows> {
    this.#requireComparable(table);
    const { relation } = table;
    const name = this.naming.target(relation);
    const { target, areRepairedTogether } = await this.apply.guard(async (client) => {
      const target = await readTargetTable(client, name);
      if (target === null) throw tableMissing(name);
      return { target, areRepairedTogether: await hasOtherUniqueIndex(client, target, relation) };
    });
    const columns = comparedColumns(relation, target);
    const { incomplete } = this.tables;
    const moves = incomplete.movesOf(relation.id);
    const haveRowsMoved = () => incomplete.movesOf(relation.id) > moves;
    const repairBlocker = this.#repairBlocker(table);
    const opened = { target, relation, columns, repairBlocker, areRepairedTogether, haveRowsMoved };
    const openAnother = (snapshot: string) =>
      this.#begin(async (client) => {
        await client.query(`set transaction snapshot ${escapeLiteral(snapshot)}`);
        await lockRows(client, opened);
        return client;
      });
    return await this.#begin(async (client) => {
      await lockRows(client, opened);
      return await SinkSnapshot.of(client, opened, { stop, apply: this.apply, openAnother });
    });
  }

  /** Calls `action` in a transaction of a new session, which is its own from then on. */
  async #begin<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const client = await openCopySession(this.config, this.context);
    try {
      await client.query(
        `begin isolation level repeatable read read only; set local lock_timeout = ${lockWaitMs}`,
      );
      return await action(client);
    } catch (error) {
      await closeClient(client);
      throw describePostgresError(error, "sink");
    }
  }

  async proved({ relation }: TableShape, haveRowsMoved: boolean): Promise<boolean> {
    const { tables } = this;
    // A copy may have taken the place of its rows meanwhile.
    if (!tables.ledger.isUnproved(relation)) return true;
    const record = async (client: Client) => {
      await tables.ledger.proved(client, relation);
      // One that moved since may have become incomplete since.
      if (!haveRowsMoved) await tables.incomplete.proved(client, relation.id);
    };
    await this.apply.guard((client) => tables.inTransaction(client, () => record(client)));
    return tables.incomplete.has(relation.id) || tables.histories.isAsked(relation);
  }

  #requireComparable({ relation }: TableShape): void {
    const { setAside, ledger, shapes, incomplete, underWay } = this.tables;
    const name = qualifiedName(relation);
    if (hasOneSession(this.config.connection)) {
      throw new MillraceError(
        "unsupported_kind",
        `${name} cannot be compared: that takes a second session at the sink. Set max_pool_size of the sink's connection to 3 or more.`,
      );
    }
    if (this.naming.isShared(relation)) {
      throw new MillraceError(
        "unsupported_kind",
        `${name} cannot be compared: its table at the sink has rows of other tables too (table_conflict Merge).`,
      );
    }
    if (setAside.has(relation.id))
      throw changed(relation, "is set aside, and is copied when its cause is gone");
    if (underWay.has(relation) || (this.context.makesCopies && !ledger.holds(relation)))
      throw changed(relation, "has no copy at the sink yet");
    if (incomplete.has(relation.id) && !ledger.isUnproved(relation))
      throw changed(relation, "has rows at the sink that are about to be completed");
    if (shapes.of(relation) !== null && !this.tables.isReadyFor(relation))
      throw changed(relation, "is about to be altered at the sink");
  }

  #repairBlocker({ relation, isKeyHashed }: TableShape): string | null {
    const { ledger } = this.tables;
    if (relation.key.length === 0 || relation.isKeyedByHash)
      return "It has no key that tells its rows apart: a Snapshot task with truncate copies it anew.";
    if (isKeyHashed)
      return "Its key is hashed, so that the source would look at all rows for each of them while the stream waits: a Snapshot task with truncate copies it anew.";
    return ledger.holds(relation)
      ? null
      : "It has no copy that counts (skip_snapshots): create a Snapshot task for it.";
  }
}

/** LOCK takes no snapshot. A table that was truncated or rewritten between the snapshot and the lock would look empty. */
async function lockRows(client: Client, { target, relation }: OpenedTable): Promise<void> {
  try {
    await client.query(`lock table ${target.ownRows} in access share mode`);
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
    throw changed(relation, "is locked at the sink");
  }
}

function changed(relation: TableShape["relation"], reason: string): MillraceError {
  return new MillraceError("table_changed", `${qualifiedName(relation)} ${reason}: it is compared later.`);
}
