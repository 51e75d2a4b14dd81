// Remembers each table from look to look, also over restarts, and warns of what has changed without an event until a copy
// has mended it.

import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { SourceNotes } from "../../source-notes.ts";
import { type RememberedTable, remember, silentChange, silentChangeWarning } from "./column-changes.ts";
import { type ColumnHistory, columnHistory } from "./column-history.ts";
import type { Met } from "./relation-description.ts";
import type { SourceTable } from "./table-shapes.ts";

export class SilentChanges {
  #told: string | null = null;
  #isUnsettled = false;
  /** How many changes were found so far, and which the last of a table was. */
  #found = 0;
  readonly #lastFound = new Map<number, number>();
  /** As they are called now, by their OIDs: a warning names the table that a task is to be made for. */
  #tables: ReadonlyMap<number, Relation> = new Map();
  /** The shapes that the stream has brought, by table: the last that were described, and what fences brought beyond. */
  readonly #met = new Map<number, readonly Met[]>();

  constructor(
    private readonly notes: SourceNotes,
    /** The sink renames columns, and adds them with their value, as the source did. */
    private readonly sinkFollowsShapes: boolean,
    private readonly warning: (reason: string | null) => void,
  ) {}

  /** Takes the selected tables as a look found them; `at`: where the log ended behind it. */
  look(tables: readonly SourceTable[], at: Lsn): void {
    this.#tables = new Map(tables.map(({ relation }) => [relation.id, relation]));
    this.#forget(warningPrefix, 0);
    // The stream may still have rows of tables that are gone.
    this.#forget(factsPrefix, rememberedGone);
    for (const table of tables) this.#compare(table, at);
    this.#tell();
  }

  /** Warns of what was found elsewhere; told by the next look. */
  note(tableId: number, reason: string): void {
    this.notes.set(warningKey(tableId), reason);
    this.#lastFound.set(tableId, ++this.#found);
  }

  /** How many changes were found so far: copies as of a point that is taken from here on have them. */
  get found(): number {
    return this.#found;
  }

  /** The table was copied as of a point before which so many changes had been found: its rows are right again, unless one came since. */
  mended(tableId: number, found: number): void {
    if ((this.#lastFound.get(tableId) ?? 0) > found) return;
    this.notes.set(warningKey(tableId), null);
    this.#tell();
  }

  /**
   * Changes of a relation do not travel, since it had a name then that is not selected. They will not come again
   * once they are acknowledged: see `settled`. Returns whether the table has a name that is, as far as is known.
   */
  passOver({ id, ...then }: Pick<Relation, "id" | "schema" | "name">): boolean {
    if (!this.#tables.has(id)) return false;
    const change = `changes were made while it was called ${qualifiedName(then)}, a name that the catalog leaves out`;
    this.notes.set(warningKey(id), change);
    this.#lastFound.set(id, ++this.#found);
    this.#isUnsettled = true;
    this.#tell();
    return true;
  }

  /** Resolves when what was passed over is noted for good: the stream must not go on before. */
  async settled(): Promise<void> {
    if (!this.#isUnsettled) return;
    this.#isUnsettled = false;
    await this.notes.durable();
  }

  /** What is committed from `at` on was made under this shape of the table, or a later one. */
  meet(met: Met): void {
    const { id, isGuess } = met.relation;
    if (isGuess) return;
    const others = (this.#met.get(id) ?? []).filter(({ at }) => at !== met.at);
    const last = [...others, met].sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-rememberedMet);
    this.#met.set(id, last);
  }

  /** What is known of the columns that a table had at a place in the stream, before the catalog was read. */
  history(tableId: number, at: Lsn): ColumnHistory {
    const met = this.#met.get(tableId)?.findLast((each) => each.at <= at);
    return columnHistory(this.#known(tableId)?.columns ?? [], met?.relation, at);
  }

  /** What was noted of tables that are not there, but of the `kept` latest. */
  #forget(prefix: string, kept: number): void {
    const isAbsent = (key: string) =>
      key.startsWith(prefix) && !this.#tables.has(Number(key.slice(prefix.length)));
    const absent = this.notes.keys().filter(isAbsent);
    for (const key of absent.slice(0, Math.max(0, absent.length - kept))) this.notes.set(key, null);
  }

  #compare(table: SourceTable, at: Lsn): void {
    const { id } = table.relation;
    const before = this.#known(id);
    const after = remember(before, table, at);
    const change = before ? silentChange(before, after, this.sinkFollowsShapes) : null;
    // The notes are saved together.
    if (change !== null) {
      this.notes.set(warningKey(id), change);
      this.#lastFound.set(id, ++this.#found);
    }
    this.notes.set(factsKey(id), JSON.stringify(after));
  }

  #known(tableId: number): RememberedTable | null {
    const text = this.notes.get(factsKey(tableId));
    return text === undefined ? null : (JSON.parse(text) as RememberedTable);
  }

  #tell(): void {
    const standing = this.notes
      .keys()
      .filter((key) => key.startsWith(warningPrefix))
      .flatMap((key) => this.#tables.get(Number(key.slice(warningPrefix.length))) ?? []);
    const shown = standing
      .slice(0, shownWarnings)
      .map((table) => silentChangeWarning(table, this.notes.get(warningKey(table.id)) ?? ""));
    const more = standing.length > shown.length ? ` And ${standing.length - shown.length} tables more.` : "";
    const reason = standing.length === 0 ? null : shown.join(" ") + more;
    if (reason === this.#told) return;
    this.#told = reason;
    this.warning(reason);
  }
}

const shownWarnings = 3;
const rememberedMet = 10;
const rememberedGone = 100;
const factsPrefix = "columns of ";
const warningPrefix = "silent change of ";
const factsKey = (tableId: number) => `${factsPrefix}${tableId}`;
const warningKey = (tableId: number) => `${warningPrefix}${tableId}`;
