// Remembers each table from look to look, also over restarts, and warns of what has changed without an event until a copy
// has mended it.

import type { SourceNotes } from "../source-notes.ts";
import { type RememberedTable, remember, silentChange, silentChangeWarning } from "./column-changes.ts";
import type { SourceTable } from "./table-shapes.ts";

export class SilentChanges {
  #told: string | null = null;

  constructor(
    private readonly notes: SourceNotes,
    /** The sink renames columns, and adds them with their value, as the source did. */
    private readonly sinkFollowsShapes: boolean,
    private readonly warning: (reason: string | null) => void,
  ) {}

  /** Takes the selected tables as they are now. */
  look(tables: readonly SourceTable[]): void {
    const present = new Set(
      tables.flatMap(({ relation }) => [factsKey(relation.id), warningKey(relation.id)]),
    );
    for (const key of this.notes.keys()) {
      if (isKey(key) && !present.has(key)) this.notes.set(key, null);
    }
    for (const table of tables) this.#compare(table);
    this.#tell();
  }

  /** The table was copied since it was looked at: its rows are right again. */
  mended(tableId: number): void {
    this.notes.set(warningKey(tableId), null);
    this.#tell();
  }

  /** What the columns of a table were called, by number. */
  formerNames(tableId: number): ReadonlyMap<number, readonly string[]> {
    const columns = this.#known(tableId)?.columns ?? [];
    return new Map(columns.map(({ number, name, formerNames }) => [number, [...formerNames, name]]));
  }

  #compare(table: SourceTable): void {
    const { id } = table.relation;
    const before = this.#known(id);
    const after = remember(before, table.facts, table.storage);
    const change = before ? silentChange(before, after, this.sinkFollowsShapes) : null;
    // The warning first: the notes are saved together.
    if (change !== null) this.notes.set(warningKey(id), silentChangeWarning(table, change));
    this.notes.set(factsKey(id), JSON.stringify(after));
  }

  #known(tableId: number): RememberedTable | null {
    const text = this.notes.get(factsKey(tableId));
    return text === undefined ? null : (JSON.parse(text) as RememberedTable);
  }

  #tell(): void {
    const standing = this.notes.keys().filter((key) => key.startsWith(warningPrefix));
    const shown = standing.slice(0, shownWarnings).map((key) => this.notes.get(key));
    const more = standing.length > shown.length ? ` And ${standing.length - shown.length} tables more.` : "";
    const reason = standing.length === 0 ? null : shown.join(" ") + more;
    if (reason === this.#told) return;
    this.#told = reason;
    this.warning(reason);
  }
}

const shownWarnings = 3;
const factsPrefix = "columns of ";
const warningPrefix = "silent change of ";
const factsKey = (tableId: number) => `${factsPrefix}${tableId}`;
const warningKey = (tableId: number) => `${warningPrefix}${tableId}`;

function isKey(key: string): boolean {
  return key.startsWith(factsPrefix) || key.startsWith(warningPrefix);
}
