// Whether the messages of one row's key are right. The stream brings every change of the key once, in order, from some change on. A copy
// brings the row as it is, and never an older state than what came before it.
//
// While the stream waits for a copy, the row may be ahead of the stream: then the stream brings all changes that lie between, too.
// That is right for a table's first copy alone. Pure.

import type { TopicMessage } from "./kafka-reader.ts";

export interface Row {
  readonly id: number;
  readonly n: number;
  readonly v: number;
  readonly pad: string | null;
}

export interface KeyMessage {
  readonly at: Pick<TopicMessage, "partition" | "offset">;
  /** Null: a tombstone. */
  readonly row: (Row & { readonly version: number; readonly isDeleted: boolean }) | null;
}

/** How rows of copies are told from changes. */
export interface CopiedVersions {
  isCopy(version: number): boolean;
  /** Its rows may be ahead of the stream. */
  mayBeAhead(version: number): boolean;
}

interface Reading {
  readonly problem: string | null;
  /** How many rows, and how many changes, go together. */
  readonly rows: number;
  readonly changes: number;
  readonly again: number;
  readonly ahead: "no" | "before the stream" | "amid the stream";
}

type KeyRow = NonNullable<KeyMessage["row"]>;

export class KeyCheck {
  readonly #rows: readonly KeyRow[];
  /** The one that is right, or that goes the farthest. */
  readonly #reading: Reading;

  /** `changes`: what each made of the row's stamp; null: it is deleted. `isLoose`: tombstones may be missing. */
  constructor(
    private readonly changes: readonly (number | null)[],
    private readonly messages: readonly KeyMessage[],
    private readonly copies: CopiedVersions,
    private readonly isLoose: boolean,
  ) {
    this.#rows = messages.flatMap(({ row }) => row ?? []);
    this.#reading = this.#best();
  }

  /** Rows of copies that bring what is there already. */
  get copiedAgain(): number {
    return this.#reading.again;
  }

  get ahead(): Reading["ahead"] {
    return this.#reading.ahead;
  }

  /** `current`: the row at the source; null: there is none. */
  problem(current: Row | null): string | null {
    const partitions = new Set(this.messages.map(({ at }) => at.partition));
    if (partitions.size > 1) return "it is in several partitions";
    return this.#orderProblem() ?? this.#reading.problem ?? this.#endProblem(current);
  }

  /** Log and topic around the first message that is wrong. */
  get told(): string {
    const { rows, changes } = this.#reading;
    const topic = this.messages.map(({ at, row }) => {
      const copied = row && this.copies.isCopy(row.version) ? "copied " : "";
      const what = row === null ? "tombstone" : row.isDeleted ? "d" : row.n;
      return `${at.partition}/${at.offset}:${copied}${what}@${row?.version ?? ""}`;
    });
    const places = this.messages.flatMap(({ row }, i) => (row ? [i] : []));
    const log = this.changes.map((n) => String(n ?? "d"));
    return `  log ${around(log, changes)}\n  topic ${around(topic, places[rows] ?? topic.length)}`;
  }

  #orderProblem(): string | null {
    let last = 0;
    for (const [index, { row }] of this.messages.entries()) {
      const before = this.messages[index - 1]?.row;
      if (row === null) {
        if (!this.isLoose && !before?.isDeleted) return "a tombstone without its delete";
        continue;
      }
      const { version, isDeleted } = row;
      if (!this.isLoose && isDeleted && this.messages[index + 1]?.row !== null)
        return "a delete without its tombstone";
      // A copy that was broken off, and begun anew before the stream went on, has one version.
      const isAnew = version === last && this.copies.isCopy(version);
      if (version <= last && !isAnew) return `version ${version} after ${last}`;
      last = version;
    }
    return null;
  }

  /** The stream may begin at any change that its first message may be; where there are several, what follows tells which one it is. */
  #best(): Reading {
    const nothing = { rows: 0, changes: 0, again: 0, ahead: "no" } as const;
    if (this.#rows.length === 0) {
      const isSilent = (this.changes.at(-1) ?? null) === null;
      return { ...nothing, problem: isSilent ? null : "nothing is there" };
    }
    const first = this.#rows.find(({ version }) => !this.copies.isCopy(version));
    const starts = first
      ? this.changes.flatMap((n, index) => (n === (first.isDeleted ? null : first.n) ? [index] : []))
      : [this.changes.length];
    let best: Reading = { ...nothing, problem: "its first change is none of the log" };
    // The last one has the fewest rows ahead.
    for (const start of starts.toReversed()) {
      const reading = this.#read(start);
      if (reading.problem === null) return reading;
      if (reading.rows >= best.rows) best = reading;
    }
    return best;
  }

  /** The stream begins with change `start`. */
  #read(start: number): Reading {
    let at = start - 1;
    let newest = -1;
    let again = 0;
    let ahead: Reading["ahead"] = "no";
    let hasBegun = false;
    const reading = (rows: number, problem: string | null) => {
      return { problem, rows, changes: at + 1, again, ahead };
    };
    for (const [i, row] of this.#rows.entries()) {
      if (!this.copies.isCopy(row.version)) {
        if (this.changes[at + 1] !== (row.isDeleted ? null : row.n)) return reading(i, this.#wrong(row, at));
        hasBegun = true;
        at++;
        continue;
      }
      const place = row.isDeleted ? -1 : this.changes.indexOf(row.n);
      const problem = this.#copyProblem(row, place, Math.max(at, newest), at);
      if (problem !== null) return reading(i, problem);
      if (i > 0 && place === Math.max(at, newest)) again++;
      newest = place;
      if (place > at) ahead = hasBegun ? "amid the stream" : ahead === "no" ? "before the stream" : ahead;
    }
    const missing = this.changes.length - 1 - at;
    return reading(this.#rows.length, missing > 0 ? `the last ${missing} changes are missing` : null);
  }

  #wrong({ isDeleted, n }: KeyRow, at: number): string {
    const next = at + 1 < this.changes.length ? (this.changes[at + 1] ?? "a delete") : "the end";
    return `${isDeleted ? "a delete" : n} where ${next} should be`;
  }

  #copyProblem({ n, isDeleted, version }: KeyRow, place: number, newest: number, at: number): string | null {
    if (isDeleted) return "a copy brings a delete";
    if (place < 0) return `a copy brings ${n}, which was never written`;
    if (place < newest) return `a copy brings ${n}, which is older than what is there`;
    if (place > at && !this.copies.mayBeAhead(version)) return `a copy brings ${n} ahead of the stream`;
    return null;
  }

  #endProblem(current: Row | null): string | null {
    const last = this.#rows.at(-1);
    const isThere = last && !last.isDeleted;
    if (!current) return isThere ? "it is there, and not at the source" : null;
    if (!isThere) return "it is at the source, and not there";
    const isSame = last.n === current.n && last.v === current.v && last.pad === current.pad;
    return isSame ? null : `${JSON.stringify(last)} instead of ${JSON.stringify(current)}`;
  }
}

function around(texts: readonly string[], at: number): string {
  return texts.slice(Math.max(0, at - 30), at + 30).join(" ");
}
