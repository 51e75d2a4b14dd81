// A piece of receipts that grows. Each is written into its lists at once: as objects that stay until they are saved, receipts would cost the
// garbage collector more than all else that is done for them.

import { filterKey, tableHash } from "./key-filter.ts";
import {
  type Counts,
  hasKey,
  hasOrdinals,
  headerBytes,
  keyBytes,
  laidOut,
  OffsetSteps,
} from "./piece-layout.ts";
import { outcomes, type Receipt } from "./receipt.ts";
import type { KeptRows } from "./receipt-rows.ts";
import { setUuid } from "./uuid-bytes.ts";

const nothing: Counts = { receipts: 0, runs: 0, rows: 0, ordinals: 0, keys: 0, names: 0 };
/** What a piece grew to while the state took nothing is given back. */
const mostKeptBytes = 4 * 1024 * 1024;
const countNames = Object.keys(nothing) as (keyof Counts)[];

export class OpenPiece {
  #tables = new TableNumbers();
  #offsets = new OffsetSteps();
  #counts = { ...nothing };
  #room = nothing;
  #lists = laidOut(nothing);
  #atMs = 0;
  #timeUs = 0;
  #lsn = 0n;

  get receipts(): number {
    return this.#counts.receipts;
  }

  add(receipt: Receipt): void {
    const { rows, key, firstAtMs } = receipt;
    const counts = this.#counts;
    const { receipts: i, keys } = counts;
    const table = this.#tables.number(receipt);
    counts.receipts++;
    if (key !== null) counts.keys++;
    if (counts.receipts > this.#room.receipts || counts.keys > this.#room.keys) this.#makeRoom();
    const lists = this.#lists;
    lists.firstAt[i] = firstAtMs - this.#atMs;
    lists.lastAt[i] = receipt.lastAtMs - firstAtMs;
    this.#atMs = firstAtMs;
    lists.receiptRows[i] = rows.count;
    lists.receiptRuns[i] = rows.runs;
    lists.ms[i] = receipt.ms;
    lists.attempts[i] = receipt.attempts;
    lists.table[i] = table;
    lists.status[i] = receipt.status;
    lists.outcome[i] = outcomes.indexOf(receipt.outcome);
    lists.kind[i] = (key === null ? 0 : hasKey) | (rows.ordinals === null ? 0 : hasOrdinals);
    if (key !== null) setUuid(lists.keys, keyBytes * keys, key);
    this.#addRows(rows);
    if (rows.ordinals) this.#addMessages(rows, rows.ordinals, table);
    this.#addRuns(rows);
  }

  /** Of all rows: see `keyFilter`. */
  filterKeys(): Uint32Array {
    const { receipts, rows } = this.#counts;
    const { table, receiptRows, hashes } = this.#lists;
    const keys = new Uint32Array(rows);
    for (let i = 0, row = 0; i < receipts; i++) {
      const hash = this.#tables.hash(table[i]!);
      for (const end = row + receiptRows[i]!; row < end; row++) keys[row] = filterKey(hash, hashes[row]!);
    }
    return keys;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const names = new TextEncoder().encode(this.#tables.json);
    const counts = { ...this.#counts, names: names.length };
    const lists = laidOut(counts, this.#lists);
    lists.names.set(names);
    const { buffer } = lists.names;
    new Uint32Array(buffer, 0, headerBytes / 4).set(Object.values(counts));
    return new Uint8Array(buffer);
  }

  /** Begins anew, in the same memory: to grow into new memory for each save would cost more than all that is written there. */
  clear(): void {
    if (this.#lists.names.buffer.byteLength > mostKeptBytes) {
      this.#room = nothing;
      this.#lists = laidOut(nothing);
    }
    this.#tables = new TableNumbers();
    this.#offsets = new OffsetSteps();
    this.#counts = { ...nothing };
    this.#atMs = 0;
    this.#timeUs = 0;
    this.#lsn = 0n;
  }

  #addRows({ lists: { hashes, checks, marks }, first, count }: KeptRows): void {
    const from = this.#counts.rows;
    this.#counts.rows += count;
    if (this.#counts.rows > this.#room.rows) this.#makeRoom();
    const lists = this.#lists;
    // Most requests of one row have one each: setting a list costs more than that.
    for (let j = 0; j < count; j++) {
      lists.hashes[from + j] = hashes[first + j]!;
      lists.checks[from + j] = checks[first + j]!;
      lists.marks[from + j] = marks[first + j]!;
    }
  }

  #addMessages({ count, partitions, offsets }: KeptRows, ordinals: ArrayLike<number>, table: number): void {
    const from = this.#counts.ordinals;
    this.#counts.ordinals += count;
    if (this.#counts.ordinals > this.#room.ordinals) this.#makeRoom();
    const lists = this.#lists;
    for (let j = 0; j < count; j++) {
      const partition = partitions?.[j] ?? 0;
      lists.ordinals[from + j] = ordinals[j]!;
      lists.partitions[from + j] = partition;
      lists.offsets[from + j] = this.#offsets.step(table, partition, offsets?.[j] ?? Number.NaN);
    }
  }

  #addRuns({ lists: { runRows, runTimesUs, runLsns }, firstRun, runs }: KeptRows): void {
    const from = this.#counts.runs;
    this.#counts.runs += runs;
    if (this.#counts.runs > this.#room.runs) this.#makeRoom();
    const lists = this.#lists;
    for (let j = 0; j < runs; j++) {
      const timeUs = runTimesUs[firstRun + j]!;
      const lsn = runLsns[firstRun + j]!;
      lists.runRows[from + j] = runRows[firstRun + j]!;
      lists.runTime[from + j] = timeUs - this.#timeUs;
      lists.runLsn[from + j] = lsn === this.#lsn ? 0n : lsn - this.#lsn;
      this.#timeUs = timeUs;
      this.#lsn = lsn;
    }
  }

  /** For all that is counted, and as much again of what has grown. */
  #makeRoom(): void {
    const room = { ...this.#room };
    for (const name of countNames) if (this.#counts[name] > room[name]) room[name] = this.#counts[name] * 2;
    this.#room = room;
    this.#lists = laidOut(room, this.#lists);
  }
}

/** Numbers the tables of a piece. Receipts of one table mostly come one after the other. */
class TableNumbers {
  readonly #numbers = new Map<string, number>();
  readonly #hashes: number[] = [];
  #last = { schema: "", table: "", topic: undefined as string | undefined, number: -1 };

  get json(): string {
    return `[${[...this.#numbers.keys()].join(",")}]`;
  }

  hash(number: number): number {
    return this.#hashes[number]!;
  }

  number({ schema, table, topic }: Pick<Receipt, "schema" | "table" | "topic">): number {
    const last = this.#last;
    const isLast = last.table === table && last.schema === schema && last.topic === topic;
    if (last.number >= 0 && isLast) return last.number;
    const name = JSON.stringify(topic === undefined ? [schema, table] : [schema, table, topic]);
    const number = this.#numbers.get(name) ?? this.#hashes.push(tableHash(schema, table)) - 1;
    this.#numbers.set(name, number);
    this.#last = { schema, table, topic, number };
    return number;
  }
}
