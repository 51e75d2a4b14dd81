// Remembers each table from look to look, also over restarts, and warns of what has changed without an event until a copy
// has mended it.

import { qualifiedName, type Relation } from "../../change/relation.ts";
import type { SourceNotes } from "../source-notes.ts";
import { type RememberedTable, remember, silentChange, silentChangeWarning } from "./column-changes.ts";
import type { ColumnHistory } from "./relation-description.ts";
import type { SourceTable } from "./table-shapes.ts";

export class SilentChanges {
  #told: string | null = null;
  /** The shape that the stream brought last, by table. */
  readonly #met = new Map<number, Relation>();

  constructor(
    private readonly notes: SourceNotes,
    /** The sink renames columns, and adds them with their value, as the source did. */
    private readonly sinkFollowsShapes: boolean,
    private readonly warning: (reason: string | null) => void,
  ) {}

  /** Takes the selected tables as they are now. */
  look(tables: readonly SourceTable[]): void {
    const present = new Set(tables.map(({ relation }) => relation.id));
    this.#forget(warningPrefix, present, 0);
    // The stream may still have rows of tables that are gone.
    this.#forget(factsPrefix, present, rememberedGone);
    for (const table of tables) this.#compare(table);
    this.#tell();
  }

  /** The table was copied since it was looked at: its rows are right again. */
  mended(tableId: number): void {
    this.notes.set(warningKey(tableId), null);
    this.#tell();
  }

  /** Changes of a selected table do not travel, since they were made while it had a name that is not selected. */
  passedOver(table: Relation, then: Pick<Relation, "schema" | "name">): void {
    const change = `changes were made while it was called ${qualifiedName(then)}, a name that the catalog leaves out`;
    this.notes.set(warningKey(table.id), silentChangeWarning(table, change));
    this.#tell();
  }

  /** The stream has come to this shape of a table. */
  meet(relation: Relation): void {
    if (!relation.isGuess) this.#met.set(relation.id, relation);
  }

  /** What is known of the numbers that a table's columns had before the catalog was read. */
  history(tableId: number): ColumnHistory {
    const columns = this.#known(tableId)?.columns ?? [];
    const names = new Map(columns.map(({ number, name, formerNames }) => [number, [...formerNames, name]]));
    const met = this.#met.get(tableId);
    for (const { number, name } of met?.columns ?? [])
      names.set(number, [...(names.get(number) ?? []), name]);
    const numbers = met ? [...met.columns.map(({ number }) => number), ...met.withheld] : [];
    const last = Math.max(0, ...numbers);
    return {
      formerNames: (number) => names.get(number) ?? [],
      numbers: [...names.keys()].sort((a, b) => a - b),
      // No number comes back that the stream has gone beyond.
      isGone: (number) => number <= last && !numbers.includes(number),
    };
  }

  /** Whether a column of the shape has a name that another column of the table had before. */
  hasNamesakes({ id, columns }: Relation): boolean {
    const names = new Map(columns.map(({ name, number }) => [name, number]));
    return (this.#known(id)?.columns ?? []).some(({ number, name, formerNames }) =>
      [name, ...formerNames].some((each) => (names.get(each) ?? number) !== number),
    );
  }

  /** What was noted of tables that are not `present`, but of the `kept` latest. */
  #forget(prefix: string, present: ReadonlySet<number>, kept: number): void {
    const isAbsent = (key: string) =>
      key.startsWith(prefix) && !present.has(Number(key.slice(prefix.length)));
    const absent = this.notes.keys().filter(isAbsent);
    for (const key of absent.slice(0, Math.max(0, absent.length - kept))) this.notes.set(key, null);
  }

  #compare(table: SourceTable): void {
    const { id } = table.relation;
    const before = this.#known(id);
    const after = remember(before, table.facts, table.storage);
    const change = before ? silentChange(before, after, this.sinkFollowsShapes) : null;
    // The warning first: the notes are saved together.
    if (change !== null) this.notes.set(warningKey(id), silentChangeWarning(table.relation, change));
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
const rememberedGone = 100;
const factsPrefix = "columns of ";
const warningPrefix = "silent change of ";
const factsKey = (tableId: number) => `${factsPrefix}${tableId}`;
const warningKey = (tableId: number) => `${warningPrefix}${tableId}`;
