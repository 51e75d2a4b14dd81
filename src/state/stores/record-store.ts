// The records of sources and sinks, opaque here: a text for each connector and side; sinks also have parts, each with a
// name. A save is durable when it returns. Saves that come while a statement is running go into the next statement
// together.

import { eq, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import { noReceipts, type ReceiptBatches } from "../../connector/receipts.ts";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import type { Term } from "../../connector/term.ts";
import { leaseLost } from "../../errors/lease-lost.ts";
import { type Database, foreignKeyViolation, sqlState, stored } from "../database.ts";
import { fenced } from "./fence.ts";
import {
  type AddedReceipts,
  type ChangedPart,
  type PartTable,
  putFencedRecords,
  putRecords,
  type RecordChanges,
  type RecordTable,
} from "./record-statements.ts";

interface PendingSave {
  readonly text: string;
  readonly parts: ChangedParts;
  readonly receipts: ReceiptBatches;
  readonly term: Term;
  readonly done: PromiseWithResolvers<void>;
}

type Group = ReadonlyMap<string, PendingSave>;

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
    await this.saved(connectorId);
    const rows = await stored(this.#read(connectorId));
    const text = rows.find(({ name }) => name === "")?.text;
    if (text === undefined) return null;
    const parts = rows.filter(({ name }) => name !== "");
    return { text, parts: new Map(parts.map((part) => [part.name, part.text])) };
  }

  /**
   * Replaces the text, changes the parts, and stores receipts, atomically. Of several pending saves under one term, the last text, all
   * changes of parts and all receipts are written; then all of them return. Throws `lease_lost`: the term is no longer the connector's,
   * and nothing was written.
   */
  save(
    connectorId: string,
    text: string,
    parts: ChangedParts,
    term: Term,
    receipts: ReceiptBatches = noReceipts,
  ): Promise<void> {
    let before = this.#pending.get(connectorId);
    if (before && isOlder(term, before.term)) return Promise.reject(leaseLost());
    if (before && isOlder(before.term, term)) {
      before.done.reject(leaseLost());
      before = undefined;
    }
    const done = before?.done ?? Promise.withResolvers<void>();
    const merged = new Map([...(before?.parts ?? noParts), ...parts]);
    const allReceipts = before ? new Map([...before.receipts, ...receipts]) : receipts;
    this.#pending.set(connectorId, { text, parts: merged, receipts: allReceipts, term, done });
    this.#latest.set(connectorId, done.promise);
    this.#writing ??= this.#drain();
    return done.promise;
  }

  /** Waits for a save that is under way, so that its record is removed too. Throws `lease_lost`. */
  async remove(connectorId: string, term: Term): Promise<void> {
    await this.saved(connectorId);
    const remove = (database: Database) =>
      database.delete(this.table).where(eq(this.table.connectorId, connectorId)).execute();
    await stored(fenced(this.database, { connectorId, term }, remove));
  }

  /** Resolves when the saves that are under way have ended, as they may. */
  async saved(connectorId: string): Promise<void> {
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
      const refused = await this.#store(group);
      for (const [connectorId, { done }] of group) {
        if (refused.has(connectorId)) done.reject(leaseLost());
        else done.resolve();
      }
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

  /** Returns the connectors whose term is no longer theirs. */
  async #store(group: Group): Promise<ReadonlySet<string>> {
    const changed = [...group].flatMap(([connectorId, { parts }]) =>
      [...parts].map(([name, part]): ChangedPart => ({ connectorId, name, part })),
    );
    const added = [...group].flatMap(([connectorId, { receipts }]) =>
      [...receipts.values()].map((batch): AddedReceipts => ({ connectorId, ...batch })),
    );
    if (changed.length <= maxPartsPerStatement) return this.#put(this.database, group, { changed, added });
    return this.database.transaction(async (transaction) => {
      let refused: ReadonlySet<string> = new Set();
      for (let at = 0; at < changed.length; at += maxPartsPerStatement) {
        const some = changed.slice(at, at + maxPartsPerStatement);
        refused = await this.#put(transaction, group, { changed: some, added: at === 0 ? added : [] });
      }
      return refused;
    });
  }

  /** One statement, which is atomic by itself; two, where only some of the saves have a term. */
  async #put(database: Database, group: Group, changes: RecordChanges): Promise<ReadonlySet<string>> {
    const texts = [...group].map(([connectorId, { text, term }]) => ({ connectorId, text, term }));
    const free = texts.filter(({ term }) => term === null);
    const bound = texts.flatMap(({ term, ...text }) => (term === null ? [] : [{ ...text, term }]));
    const changesOf = (of: readonly { connectorId: string }[]): RecordChanges => {
      if (of.length === texts.length) return changes;
      const ids = new Set(of.map(({ connectorId }) => connectorId));
      const isOf = ({ connectorId }: { readonly connectorId: string }) => ids.has(connectorId);
      return { changed: changes.changed.filter(isOf), added: changes.added.filter(isOf) };
    };
    const { table, partTable } = this;
    if (free.length > 0) await putRecords(database, { table, partTable }, free, changesOf(free));
    if (bound.length === 0) return new Set();
    const kept = await putFencedRecords(database, { table, partTable }, bound, changesOf(bound));
    return new Set(bound.map(({ connectorId }) => connectorId).filter((id) => !kept.has(id)));
  }
}

function isOlder(term: Term, than: Term): boolean {
  return (term ?? 0) < (than ?? 0);
}
