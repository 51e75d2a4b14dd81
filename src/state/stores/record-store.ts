// Records that sources and sinks keep of themselves, opaque here: a text per connector and side, and of sinks also parts, each
// with a name. A save is durable when it returns; saves that arrive while another is being written go together in the next
// statement.

import { eq, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import { type Database, foreignKeyViolation, sqlState, stored } from "../database.ts";
import type { sinkRecordParts, sinkRecords, sourceRecords } from "../schema.ts";

interface Waiting {
  readonly text: string;
  readonly parts: ChangedParts;
  readonly done: PromiseWithResolvers<void>;
}

interface ChangedPart {
  readonly connectorId: string;
  readonly name: string;
  readonly part: string | null;
}

type Group = ReadonlyMap<string, Waiting>;
type RecordTable = typeof sinkRecords | typeof sourceRecords;
type PartTable = typeof sinkRecordParts;

const noParts: ChangedParts = new Map();

/** A statement has at most 65,535 parameters; a part's row takes three. */
const partsAtOnce = 10_000;

export class RecordStore {
  #waiting = new Map<string, Waiting>();
  #writing: Promise<void> | null = null;
  /** The last save of each connector that is not over yet. */
  readonly #latest = new Map<string, Promise<void>>();

  constructor(
    private readonly database: Database,
    private readonly table: RecordTable,
    private readonly partTable: PartTable | null,
  ) {}

  /** What was saved last, also when its saving is under way: by a run that was cut off, say. */
  async load(connectorId: string): Promise<SavedRecord | null> {
    await this.#saved(connectorId);
    const rows = await stored(this.#read(connectorId));
    const text = rows.find(({ name }) => name === "")?.text;
    if (text === undefined) return null;
    const parts = rows.filter(({ name }) => name !== "");
    return { text, parts: new Map(parts.map((part) => [part.name, part.text])) };
  }

  /**
   * Replaces the text and changes the parts, all or nothing. Of several texts that wait, the last one is written, with all that
   * becomes of parts, and all saves return then.
   */
  save(connectorId: string, text: string, parts: ChangedParts = noParts): Promise<void> {
    const before = this.#waiting.get(connectorId);
    const done = before?.done ?? Promise.withResolvers<void>();
    this.#waiting.set(connectorId, { text, parts: new Map([...(before?.parts ?? noParts), ...parts]), done });
    this.#latest.set(connectorId, done.promise);
    this.#writing ??= this.#drain();
    return done.promise;
  }

  /** A record whose saving was under way is gone as well. */
  async remove(connectorId: string): Promise<void> {
    await this.#saved(connectorId);
    await stored(this.database.delete(this.table).where(eq(this.table.connectorId, connectorId)).execute());
  }

  async #saved(connectorId: string): Promise<void> {
    await this.#latest.get(connectorId)?.catch(() => {});
  }

  /** The text under an empty name, and the parts under theirs: one statement sees them as of one moment. */
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
    // What is asked for in the same turn goes together already.
    await Promise.resolve();
    while (this.#waiting.size > 0) {
      const group = this.#waiting;
      this.#waiting = new Map();
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
      // One connector that was removed meanwhile must not fail the others.
      if (sqlState(error) === foreignKeyViolation && group.size > 1) {
        for (const [connectorId, waiting] of group) await this.#write(new Map([[connectorId, waiting]]));
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
    if (changed.length <= partsAtOnce) return await this.#put(this.database, group, changed);
    await this.database.transaction(async (transaction) => {
      for (let at = 0; at < changed.length; at += partsAtOnce) {
        await this.#put(transaction, group, changed.slice(at, at + partsAtOnce));
      }
    });
  }

  /** One statement: the least that is all or nothing. */
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
  const gone = changed.filter(({ part }) => part === null).map((each) => [each.connectorId, each.name]);
  const there = changed.flatMap(({ part, ...of }) => (part === null ? [] : [{ ...of, part }]));
  const removed = () =>
    database.delete(table).where(sql`(${table.connectorId}, ${table.name}) in ${gone}`).returning(name);
  const written = () =>
    database
      .insert(table)
      .values(there)
      .onConflictDoUpdate({ target: [table.connectorId, table.name], set: { part: sql`excluded.part` } })
      .returning(name);
  return [
    ...(gone.length === 0 ? [] : [database.$with("removed").as(removed())]),
    ...(there.length === 0 ? [] : [database.$with("written").as(written())]),
  ];
}
