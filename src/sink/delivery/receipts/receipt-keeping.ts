// The receipts of one session: saves them with the record, tells the state of the tables and removes what is too old or too much. A transport
// without it keeps no receipts.

import { type Relation, withoutDomain } from "../../../change/relation.ts";
import { batchSpanMs, type ReceiptCall, type ReceiptTable } from "../../../connector/receipts.ts";
import type { CheckpointStore } from "../../sink.ts";
import { tableKey } from "../table-key.ts";
import { ReceiptBook } from "./receipt-book.ts";

/** Where the receipts of a connector are kept. */
export interface ReceiptPlace {
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  /** Durable when it resolves, and refused under an older term. */
  readonly ask: (call: ReceiptCall) => Promise<void>;
  /** In ms since 1970-01-01 UTC. */
  readonly nowMs: () => number;
}

const saveWithinMs = 1_000;
/** So often old receipts are removed, and when so much of what may be stored has been added. */
const pruneSpacingMs = 60_000;
const pruneShare = 1 / 32;

export class ReceiptKeeping {
  readonly book: ReceiptBook;
  readonly #tables = new Map<string, ReceiptTable>();
  #told = "";
  #writtenBytes = 0;
  #prunedMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly place: ReceiptPlace) {
    const newId = () => Bun.randomUUIDv7();
    this.book = new ReceiptBook({ nowMs: place.nowMs, newId, withinMs: saveWithinMs });
  }

  /** Saves receipts with the record. */
  store(record: CheckpointStore): CheckpointStore {
    return {
      load: () => record.load(),
      save: async (text, parts) => {
        const batches = this.book.take();
        if (batches.size === 0) return await record.save(text, parts);
        await record.save(text, parts, batches);
        this.book.saved(batches);
        for (const { body, filter } of batches.values()) this.#writtenBytes += body.length + filter.length;
        this.#prune();
      },
    };
  }

  /** All tables that the stream will bring. */
  async prepare(relations: readonly Relation[]): Promise<void> {
    this.#tables.clear();
    for (const relation of relations) this.#set(relation);
    await this.#tell();
  }

  /** A table has another shape from here on. */
  async changed(relation: Relation): Promise<void> {
    const known = this.#tables.get(tableKey(relation.schema, relation.name));
    if (JSON.stringify(known) === JSON.stringify(this.#set(relation))) return;
    await this.#tell();
  }

  #set(relation: Relation): ReceiptTable {
    const { schema, name, key, columns } = relation;
    const keyColumns = key.map((column) => {
      const { name: columnName, typeName } = columns[column]!;
      return { name: columnName, typeOid: withoutDomain(columns[column]!).typeOid, typeName };
    });
    const table = { schema, name, key: keyColumns };
    this.#tables.set(tableKey(relation.schema, relation.name), table);
    return table;
  }

  async #tell(): Promise<void> {
    const tables = [...this.#tables.values()];
    const told = JSON.stringify(tables);
    if (told === this.#told) return;
    await this.place.ask({ kind: "tables", tables });
    this.#told = told;
  }

  /** What fails here is done by the next one. */
  #prune(): void {
    const { nowMs, maxAgeMs, maxBytes, ask } = this.place;
    const isDue = nowMs() - this.#prunedMs >= pruneSpacingMs || this.#writtenBytes >= maxBytes * pruneShare;
    if (!isDue) return;
    this.#prunedMs = nowMs();
    this.#writtenBytes = 0;
    ask({ kind: "prune", maxAgeMs: maxAgeMs + batchSpanMs, maxBytes }).catch(() => undefined);
  }
}
