// Records that sources and sinks keep of themselves: one opaque text per connector and side. A save is durable when it
// returns; saves that arrive while another is being written go together in the next statement.

import { eq, sql } from "drizzle-orm";
import { type Database, foreignKeyViolation, sqlState, stored } from "./database.ts";
import type { sinkRecords, sourceRecords } from "./schema.ts";

interface Waiting {
  readonly record: string;
  readonly done: PromiseWithResolvers<void>;
}

type RecordTable = typeof sinkRecords | typeof sourceRecords;

export class RecordStore {
  #waiting = new Map<string, Waiting>();
  #writing: Promise<void> | null = null;
  /** The last save of each connector that is not over yet. */
  readonly #latest = new Map<string, Promise<void>>();

  constructor(
    private readonly database: Database,
    private readonly table: RecordTable,
  ) {}

  /** What was saved last, also when its saving is under way: by a run that was cut off, say. */
  async load(connectorId: string): Promise<string | null> {
    await this.#saved(connectorId);
    const where = eq(this.table.connectorId, connectorId);
    const rows = await stored(this.database.select().from(this.table).where(where).execute());
    return rows[0]?.record ?? null;
  }

  /** Replaces the record. Of several saves that wait, the last one is written, and all of them return then. */
  save(connectorId: string, record: string): Promise<void> {
    const done = this.#waiting.get(connectorId)?.done ?? Promise.withResolvers<void>();
    this.#waiting.set(connectorId, { record, done });
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

  async #write(group: ReadonlyMap<string, Waiting>): Promise<void> {
    try {
      await this.#upsert(group);
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

  async #upsert(group: ReadonlyMap<string, Waiting>): Promise<void> {
    const values = [...group].map(([connectorId, { record }]) => ({ connectorId, record }));
    await this.database
      .insert(this.table)
      .values(values)
      .onConflictDoUpdate({ target: this.table.connectorId, set: { record: sql`excluded.record` } });
  }
}
