// What the sink's record holds of tables: each one's is stored as a part with its name and saved when it changes, so that a save
// costs what has changed, however many tables there are. Pure.

import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { ChangedParts } from "../../../connector/saved-record.ts";
import {
  type DividedCopy,
  type DividedTables,
  readDivided,
  type StoredDividedCopy,
  storeDivided,
} from "./divided-copy.ts";

export interface RecordedTables {
  /** Tables whose first copy is delivered, by `schema.table`. */
  readonly copied: CopiedTables;
  /** Copies that are made in ranges, by `schema.table`. */
  readonly divided: DividedTables;
}

export type CopiedTables = ReadonlyMap<string, CopiedTable>;

export interface CopiedTable {
  /** `copyMark` of the table that was copied. */
  readonly identity: string;
  /** The consistent point of the copy. Zero: changes were missed since, and it is to be made again. */
  readonly lsn: Lsn;
}

/** Identity and LSN. */
type StoredCopy = readonly [string, string];

interface StoredTable {
  readonly copied?: StoredCopy;
  readonly divided?: StoredDividedCopy;
}

export interface StoredTables {
  readonly copied: Readonly<Record<string, StoredCopy>>;
  readonly divided?: Readonly<Record<string, StoredDividedCopy>>;
}

export const noTables: RecordedTables = { copied: new Map(), divided: new Map() };

const readCopied = ([identity, at]: StoredCopy): CopiedTable => ({ identity, lsn: parseLsn(at) });

/** Null: there is nothing of it. */
function formatTable({ copied, divided }: RecordedTables, name: string): string | null {
  const copy = copied.get(name);
  const parts = divided.get(name);
  if (!copy && !parts) return null;
  const stored: StoredTable = {
    ...(copy ? { copied: [copy.identity, formatLsn(copy.lsn)] } : {}),
    ...(parts ? { divided: storeDivided(parts) } : {}),
  };
  return JSON.stringify(stored);
}

export function parseTables(parts: ReadonlyMap<string, string>): RecordedTables {
  const stored = [...parts].map(([name, text]) => [name, JSON.parse(text) as StoredTable] as const);
  return {
    copied: new Map(stored.flatMap(([name, { copied }]) => (copied ? [[name, readCopied(copied)]] : []))),
    divided: new Map(
      stored.flatMap(([name, { divided }]) => (divided ? [[name, readDivided(divided)]] : [])),
    ),
  };
}

export function readTables({ copied, divided }: StoredTables): RecordedTables {
  return {
    copied: new Map(Object.entries(copied).map(([name, copy]) => [name, readCopied(copy)])),
    divided: new Map(Object.entries(divided ?? {}).map(([name, copy]) => [name, readDivided(copy)])),
  };
}

/** What has been handed over to be stored, to tell what is still to be. */
export class SavedTables {
  #copied: RecordedTables["copied"];
  #divided: RecordedTables["divided"];
  /** Of `#divided`: keys are added to a copy, and taken from it, in place. */
  #owedChanges: ReadonlyMap<string, number>;
  /** What is stored of these is not known. */
  readonly #doubtful = new Set<string>();

  constructor({ copied, divided }: RecordedTables) {
    this.#copied = copied;
    this.#divided = divided;
    this.#owedChanges = owedChanges(divided);
  }

  /** What is to be written for `tables` to be what is stored. They count as stored from here on. */
  take(tables: RecordedTables): ChangedParts {
    const names = new Set([...this.#doubtful, ...this.#changed(tables)]);
    this.#copied = tables.copied;
    this.#divided = tables.divided;
    this.#owedChanges = owedChanges(tables.divided);
    this.#doubtful.clear();
    return new Map([...names].map((name) => [name, formatTable(tables, name)]));
  }

  /** A save of these has failed, and may have been made nevertheless. */
  doubt(names: Iterable<string>): void {
    for (const name of names) this.#doubtful.add(name);
  }

  #changed({ copied, divided }: RecordedTables): readonly string[] {
    const isOwedOther = (name: string, { owed }: DividedCopy) => this.#owedChanges.get(name) !== owed.changes;
    const owed = [...divided].filter(([name, copy]) => isOwedOther(name, copy));
    return [
      ...otherKeys(this.#copied, copied),
      ...otherKeys(this.#divided, divided),
      ...owed.map(([name]) => name),
    ];
  }
}

function owedChanges(divided: RecordedTables["divided"]): ReadonlyMap<string, number> {
  return new Map([...divided].map(([name, { owed }]) => [name, owed.changes]));
}

/** Keys under which the two do not hold the same. Looks at none where they are one: most saves change no table. */
function otherKeys<Value>(
  before: ReadonlyMap<string, Value>,
  now: ReadonlyMap<string, Value>,
): readonly string[] {
  const others: string[] = [];
  if (before === now) return others;
  for (const [key, value] of now) if (before.get(key) !== value) others.push(key);
  for (const key of before.keys()) if (!now.has(key)) others.push(key);
  return others;
}
