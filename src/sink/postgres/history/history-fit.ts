// Makes a table's history, and lets it follow the table's name, columns and key. In the open transaction.

import type { Client } from "pg";
import { keyNames, qualifiedName, type Relation } from "../../../change/relation.ts";
import { renameClashing, renameSql, tableExists } from "../schema/table-rename.ts";
import { createSchemas } from "../schema/table-schema.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readHistory, requireOwnColumns, requireOwnName } from "./history-check.ts";
import { type HistoryLedger, type HistoryRecord, shownColumns } from "./history-ledger.ts";
import { followedBehind, type HistoryChange, planHistory, type WantedColumn } from "./history-migration.ts";
import { nameBefore, versionsName } from "./history-naming.ts";
import { changeHistory, createHistory, fitHistoryKey } from "./history-schema.ts";
import { dropVersions, type Grants, makeVersions } from "./versions-view.ts";

export interface FollowedTable {
  readonly target: TargetName;
  readonly relation: Relation;
  readonly wanted: readonly WantedColumn[];
  /** Of the history. */
  readonly name: TargetName;
  /** The table's name when the catalog asked for its history. */
  readonly asked: TargetName;
  /** A history that is new takes changes at once. */
  readonly isBegun: boolean;
}

export class HistoryFit {
  /** On views that were dropped to be made anew, by the table's OID. */
  readonly #grants = new Map<number, Grants>();

  constructor(
    private readonly ledger: HistoryLedger,
    /** Whether the source still has the table, as far as is known. */
    private readonly isPresent: (tableId: number) => boolean,
    private readonly warn: (reason: string) => void,
  ) {}

  /** Throws MigrationRefused where rows cannot go there. */
  async follow(client: Client, followed: FollowedTable): Promise<HistoryRecord> {
    const { target, relation, name, wanted } = followed;
    requireOwnColumns(name, relation);
    await this.#takeName(client, followed);
    const known = this.ledger.of(relation.id);
    const there = await readHistory(client, { name, followed: known?.columns ?? [], wanted });
    const key = keyNames(relation);
    const record: HistoryRecord = {
      tableId: relation.id,
      asked: followed.asked,
      history: name,
      versions: key.length === 0 ? null : versionsName(target),
      columns: followedBehind(known?.columns ?? [], wanted, []),
      key,
      isBegun: known?.isBegun === true || followed.isBegun,
      isReconciled: known?.isReconciled ?? false,
    };
    const current = there?.columns.map((column) => ({ name: column.name, type: column.typeName })) ?? [];
    const { changes } = planHistory(current, known?.columns ?? [], wanted);
    // The history may have the type that the record names under another name: millrace has made it anew.
    const isSame = there !== null && Bun.deepEquals(known, record) && !changes.some(isRetype);
    // Somebody who has put another table in the history's place has dropped its view with the former one.
    const isShown = record.versions === null || (isSame && (await tableExists(client, record.versions)));
    if (isSame && isShown) return record;
    const made =
      there === null
        ? await this.#create(client, record, wanted, known, followed.isBegun)
        : await this.#alter(client, record, wanted, known, changes);
    await this.#makeView(client, made, known);
    await this.ledger.write(client, made);
    return made;
  }

  /** Gives the history another name, so that a new one can be made. */
  async setAside(client: Client, record: HistoryRecord): Promise<void> {
    await this.#dropView(client, record);
    await this.#renameAside(client, record.history);
    await this.ledger.forget(client, record.tableId);
  }

  async #create(
    client: Client,
    record: HistoryRecord,
    wanted: readonly WantedColumn[],
    known: HistoryRecord | null,
    isBegun: boolean,
  ): Promise<HistoryRecord> {
    if (known?.isBegun) {
      this.warn(`The history ${qualifiedName(record.history)} was dropped at the sink: a new one begins.`);
    }
    await createHistory(client, record.history, wanted, record.key);
    return { ...record, columns: followedBehind([], wanted, []), isBegun, isReconciled: false };
  }

  async #alter(
    client: Client,
    record: HistoryRecord,
    wanted: readonly WantedColumn[],
    known: HistoryRecord | null,
    changes: readonly HistoryChange[],
  ): Promise<HistoryRecord> {
    const before = known?.columns ?? [];
    // A view holds the types of the columns that it shows.
    if (changes.some(isRetype)) await this.#dropView(client, known ?? record);
    const made = await changeHistory(client, record.history, changes);
    await fitHistoryKey(client, record.history, record.key);
    // A column that begins anew: the rows that the history has last are not those of the table.
    const isBehind = made.length > changes.length;
    const columns = followedBehind(before, wanted, made);
    return { ...record, columns, isReconciled: record.isReconciled && !isBehind };
  }

  async #makeView(client: Client, record: HistoryRecord, known: HistoryRecord | null): Promise<void> {
    const { versions: view, history, key } = record;
    if (known?.versions && !isSameName(known.versions, view)) await this.#dropView(client, known);
    if (view === null) return;
    const columns = shownColumns(record);
    const grants = this.#grants.get(record.tableId);
    const failure = await makeVersions(client, { history, view, columns, key }, grants);
    if (failure === null) return;
    this.warn(
      `View ${qualifiedName(view)} could not be made anew: ${failure}. The history itself goes on in ${qualifiedName(history)}.`,
    );
  }

  /** Renames the table's history if its table was renamed, and frees the name where another history has it. */
  async #takeName(client: Client, { relation, name }: FollowedTable): Promise<void> {
    const own = this.ledger.of(relation.id);
    if (own && isSameName(own.history, name)) return;
    await requireOwnName(client, name);
    const occupant = this.ledger.named(name);
    if (occupant && this.isPresent(occupant.tableId)) await this.#moveAway(client, occupant);
    else if (occupant) await this.ledger.forget(client, occupant.tableId);
    if (own === null || !(await tableExists(client, own.history))) return;
    if (await tableExists(client, name)) await this.#renameAside(client, name);
    await this.#dropView(client, own);
    await rename(client, own.history, name);
  }

  /** Its table was renamed, too. It gets its own name with its next change. */
  async #moveAway(client: Client, occupant: HistoryRecord): Promise<void> {
    const { schema } = occupant.history;
    const name = { schema, name: `millrace_renamed_history_${occupant.tableId}` };
    await this.#dropView(client, occupant);
    if (await tableExists(client, occupant.history)) await rename(client, occupant.history, name);
    await this.ledger.write(client, { ...occupant, history: name, versions: null });
  }

  async #dropView(client: Client, { tableId, versions }: HistoryRecord): Promise<void> {
    if (versions === null) return;
    const grants = await dropVersions(client, versions);
    if (grants.length > 0) this.#grants.set(tableId, grants);
  }

  async #renameAside(client: Client, { schema, name }: TargetName): Promise<void> {
    const taken: string[] = [];
    for (;;) {
      const aside = { schema, name: nameBefore(name, (other) => taken.includes(other)) };
      if (!(await tableExists(client, aside))) return await rename(client, { schema, name }, aside);
      taken.push(aside.name);
    }
  }
}

function isRetype({ kind }: HistoryChange): boolean {
  return kind === "retype";
}

function isSameName(one: TargetName, other: TargetName | null): boolean {
  return other !== null && one.schema === other.schema && one.name === other.name;
}

async function rename(client: Client, from: TargetName, to: TargetName): Promise<void> {
  await createSchemas(client, new Set([to.schema]));
  if (from.schema !== to.schema) await renameClashing(client, from, to.schema);
  for (const sql of renameSql(from, to)) await client.query(sql);
}
