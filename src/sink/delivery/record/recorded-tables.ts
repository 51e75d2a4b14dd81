// What the sink's record holds of tables. Each table has a part of its own in the store, which is saved when it changes. So a save costs
// what has changed, however many tables there are. Pure.

import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { ChangedParts } from "../../../connector/saved-record.ts";
import { type ChunkedCopies, readChunked, type StoredChunkedCopy, storeChunked } from "./chunked-copy.ts";
import { differingNames } from "./table-map.ts";

export interface RecordedTables {
  /** Tables whose first copy is delivered, by `schema.table`. */
  readonly copied: CopiedTables;
  /** Copies that are made in chunks. */
  readonly chunked: ChunkedCopies;
}

export type CopiedTables = ReadonlyMap<string, CopiedTable>;

export interface CopiedTable {
  /** `copyFingerprint` of the table that was copied. */
  readonly identity: string;
  /** The consistent point of the copy. Zero: changes were missed since, and it is to be made again. */
  readonly lsn: Lsn;
}

/** Identity and LSN. */
type StoredCopy = readonly [string, string];

interface StoredTable {
  readonly copied?: StoredCopy;
  readonly divided?: StoredChunkedCopy;
}

export interface StoredTables {
  readonly copied: Readonly<Record<string, StoredCopy>>;
  readonly divided?: Readonly<Record<string, StoredChunkedCopy>>;
}

export const noTables: RecordedTables = { copied: new Map(), chunked: new Map() };

const readCopied = ([identity, at]: StoredCopy): CopiedTable => ({ identity, lsn: parseLsn(at) });

/** Null: there is nothing of it. */
function formatTable({ copied, chunked }: RecordedTables, name: string): string | null {
  const copy = copied.get(name);
  const chunks = chunked.get(name);
  if (!copy && !chunks) return null;
  const stored: StoredTable = {
    ...(copy ? { copied: [copy.identity, formatLsn(copy.lsn)] } : {}),
    ...(chunks ? { divided: storeChunked(chunks) } : {}),
  };
  return JSON.stringify(stored);
}

export function parseTables(parts: ReadonlyMap<string, string>): RecordedTables {
  const stored = [...parts].map(([name, text]) => [name, JSON.parse(text) as StoredTable] as const);
  return {
    copied: new Map(stored.flatMap(([name, { copied }]) => (copied ? [[name, readCopied(copied)]] : []))),
    chunked: new Map(
      stored.flatMap(([name, { divided }]) => (divided ? [[name, readChunked(divided)]] : [])),
    ),
  };
}

export function readTables({ copied, divided }: StoredTables): RecordedTables {
  return {
    copied: new Map(Object.entries(copied).map(([name, copy]) => [name, readCopied(copy)])),
    chunked: new Map(Object.entries(divided ?? {}).map(([name, copy]) => [name, readChunked(copy)])),
  };
}

/** What was handed over to be stored, to know what is still to be. */
export class SavedTables {
  #copied: RecordedTables["copied"];
  #chunked: RecordedTables["chunked"];
  /** Of `#chunked`, by table: keys are added to a copy, and removed from it, in place. */
  #incompleteChanges: ReadonlyMap<string, number>;
  /** What is stored of these is not known. */
  readonly #doubtful = new Set<string>();

  constructor({ copied, chunked }: RecordedTables) {
    this.#copied = copied;
    this.#chunked = chunked;
    this.#incompleteChanges = incompleteChanges(chunked);
  }

  /** Returns what to write so that `tables` are stored. They count as stored from here on. */
  take(tables: RecordedTables): ChangedParts {
    const names = new Set([...this.#doubtful, ...this.#changed(tables)]);
    this.#copied = tables.copied;
    this.#chunked = tables.chunked;
    this.#incompleteChanges = incompleteChanges(tables.chunked);
    this.#doubtful.clear();
    return new Map([...names].map((name) => [name, formatTable(tables, name)]));
  }

  /** A save of these has failed, and may have been made all the same. */
  doubt(names: Iterable<string>): void {
    for (const name of names) this.#doubtful.add(name);
  }

  #changed({ copied, chunked }: RecordedTables): readonly string[] {
    const inPlace: string[] = [];
    for (const [name, { incomplete }] of chunked)
      if ((this.#incompleteChanges.get(name) ?? 0) !== incomplete.changes) inPlace.push(name);
    return [...differingNames(this.#copied, copied), ...differingNames(this.#chunked, chunked), ...inPlace];
  }
}

/** Of those that have any: mostly none has. */
function incompleteChanges(chunked: RecordedTables["chunked"]): ReadonlyMap<string, number> {
  const changes = new Map<string, number>();
  for (const [name, { incomplete }] of chunked)
    if (incomplete.changes > 0) changes.set(name, incomplete.changes);
  return changes;
}
