// The records of sources and sinks, opaque here: a text for each connector and side; sinks also have parts, each with a
// name. A save is durable when it returns. Saves that come while a statement is running go into the next statement
// together.

import { eq, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import { type Database, foreignKeyViolation, sqlState, stored } from "../database.ts";
import type { sinkRecordParts, sinkRecords, sourceRecords } from "../schema.ts";

interface PendingSave {
  readonly text: string;
  readonly parts: ChangedParts;
  readonly done: PromiseWithResolvers<void>;
}

interface ChangedPart {
  readonly connectorId: string;
  readonly name: string;
  readonly part: string | null;
}

type Group = ReadonlyMap<string, PendingSave>;
type RecordTable = typeof sinkRecords | typeof sourceRecords;
type PartTable = typeof sinkRecordParts;

const noParts: ChangedParts = new Map();

/** A statement has at most 65,535 parameters, and a part takes three. */
const maxPartsPerStatement = 10_000;

export class RecordStore {
  #pending = new Map<string, PendingSave>();
  #writing: Promise<void> | null = null;
  /** The last save of each connector that has not ended. */
  readonly #latest = new Map<string, Promise<void>>();

  constructor(
    private readonly database: Database,
    private readonly table: RecordTable,
    private readonly partTable: PartTable | null,
  ) {}

  /** The record that was saved last. Waits for a save that is under way, for instance of a run that was aborted. */
  async load(connectorId: string): Promise<SavedRecord | null> {
    await this.#saved(connectorId);
    const rows = await stored(this.#read(connectorId));
    const text = rows.find(({ name }) => name === "")?.text;
    if (text === undefined) return null;
    const parts = rows.filter(({ name }) => name !== "");
    return { text, parts: new Map(parts.map((part) => [part.name, part.text])) };
  }

  /**
   * Replaces the text and changes the parts, atomically. Of several pending saves, the last text and all changes of
   * parts are written; then all of them return.
   */
  save(connectorId: string, text: string, parts: ChangedParts = noParts): Promise<void> {
    const before = this.#pending.get(connectorId);
    const done = before?.done ?? Promise.withResolvers<void>();
    this.#pending.set(connectorId, { text, parts: new Map([...(before?.parts ?? noParts), ...parts]), done });
    this.#latest.set(connectorId, done.promise);
    this.#writing ??= this.#drain();
    return done.promise;
  }

  /** Waits for a save that is under way, so that its record is removed too. */
  async remove(connectorId: string): Promise<void> {
    await this.#saved(connectorId);
    await stored(this.database.delete(this.table).where(eq(this.table.connectorId, connectorId)).execute());
  }

  async #saved(connectorId: string): Promise<void> {
    await this.#latest.get(connectorId)?.catch(() => {});
  }

  /** The text under an empty name, the parts under theirs. One statement, so that they are consistent. */
  async #read(connectorId: string): Promise<readonly { readonly name: string; readonly text: string }[]> {
    const { database, table, partTable } = this;
    const text = database
      .select({ name: sql<string>`''`, text: table.record })
      .from(table)
      .where(eq(table.connectorId, connectorId));
    if (!partTable) return text;
    const parts = database
      .select({ name: sql<string>`${partTable.name}`, text: partTable.part })
      .from(partTable)
      .where(eq(partTable.connectorId, connectorId));
    return unionAll(text, parts);
  }

  async #drain(): Promise<void> {
    // Saves of the same tick of the event loop go into one group.
    await Promise.resolve();
    while (this.#pending.size > 0) {
      const group = this.#pending;
      this.#pending = new Map();
      await this.#write(group);
      for (const [connectorId, { done }] of group) {
        if (this.#latest.get(connectorId) === done.promise) this.#latest.delete(connectorId);
      }
    }
    this.#writing = null;
  }

  async #write(group: Group): Promise<void> {
    try {
      await this.#store(group);
      for (const { done } of group.values()) done.resolve();
    } catch (error) {
      // A connector that was deleted meanwhile must not fail the others.
      if (sqlState(error) === foreignKeyViolation && group.size > 1) {
        for (const [connectorId, save] of group) await this.#write(new Map([[connectorId, save]]));
        return;
      }
      const failure = stored(Promise.reject(error));
      for (const { done } of group.values()) failure.catch(done.reject);
      await failure.catch(() => {});
    }
  }

  async #store(group: Group): Promise<void> {
    const changed = [...group].flatMap(([connectorId, { parts }]) =>
      [...parts].map(([name, part]): ChangedPart => ({ connectorId, name, part })),
    );
    if (changed.length <= maxPartsPerStatement) return await this.#put(this.database, group, changed);
    await this.database.transaction(async (transaction) => {
      for (let at = 0; at < changed.length; at += maxPartsPerStatement) {
        await this.#put(transaction, group, changed.slice(at, at + maxPartsPerStatement));
      }
    });
  }

  /** One statement, which is atomic by itself. */
  async #put(database: Database, group: Group, changed: readonly ChangedPart[]): Promise<void> {
    const { table, partTable } = this;
    const parts = partTable ? partChanges(database, partTable, changed) : [];
    const values = [...group].map(([connectorId, { text }]) => ({ connectorId, record: text }));
    await database
      .with(...parts)
      .insert(table)
      .values(values)
      .onConflictDoUpdate({ target: table.connectorId, set: { record: sql`excluded.record` } });
  }
}

function partChanges(database: Database, table: PartTable, changed: readonly ChangedPart[]) {
  const name = { name: table.name };
  const removed = changed.filter(({ part }) => part === null).map((each) => [each.connectorId, each.name]);
  const written = changed.flatMap(({ part, ...of }) => (part === null ? [] : [{ ...of, part }]));
  const remove = () =>
    database.delete(table).where(sql`(${table.connectorId}, ${table.name}) in ${removed}`).returning(name);
  const write = () =>
    database
      .insert(table)
      .values(written)
      .onConflictDoUpdate({ target: [table.connectorId, table.name], set: { part: sql`excluded.part` } })
      .returning(name);
  return [
    ...(removed.length === 0 ? [] : [database.$with("removed").as(remove())]),
    ...(written.length === 0 ? [] : [database.$with("written").as(write())]),
  ];
}
