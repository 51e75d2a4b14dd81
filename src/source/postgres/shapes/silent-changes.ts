// Remembers each table's catalog entries, across restarts, and warns of what has changed rows without an event until a
// copy has made the table right.

import type { Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { SourceState } from "../../source-state.ts";
import {
  leftOutAs,
  type RememberedTable,
  remember,
  silentChange,
  silentChangeWarning,
} from "./column-changes.ts";
import { type ColumnHistory, columnHistory } from "./column-history.ts";
import type { StreamedShape } from "./relation-description.ts";
import type { SourceTable } from "./table-shapes.ts";

export class SilentChanges {
  #lastWarning: string | null = null;
  #isUnsaved = false;
  /** How many changes were found so far, and the number of each table's last one. */
  #found = 0;
  readonly #lastFound = new Map<number, number>();
  /** The tables by their OIDs: a warning names a table as it is called now. */
  #tables: ReadonlyMap<number, Relation> = new Map();
  /** The shapes that the stream has brought, by table: the last ones described, and those of shape markers. */
  readonly #streamed = new Map<number, readonly StreamedShape[]>();

  constructor(
    private readonly state: SourceState,
    /** The sink renames columns, and adds them with their default, as the source did. */
    private readonly sinkFollowsShapes: boolean,
    private readonly warning: (reason: string | null) => void,
  ) {}

  /**
   * Compares the tables that are carried, as they were just read, with what is remembered. `at`: where the log ended after the
   * read.
   */
  compare(tables: readonly SourceTable[], at: Lsn): void {
    this.#tables = new Map(tables.map(({ relation }) => [relation.id, relation]));
    this.#removeAbsent(warningPrefix, 0);
    this.#removeAbsent(againPrefix, 0);
    // The stream may still bring rows of tables that are gone.
    this.#removeAbsent(factsPrefix, rememberedGone);
    for (const table of tables) this.#compareTable(table, at);
    this.#warn();
  }

  /** Tables that are to be copied again count as unpublished up to now, until `published` is called with them. */
  withCoverage(tables: readonly SourceTable[]): readonly SourceTable[] {
    return tables.map((table) => {
      const { coverage } = table;
      const isAgain = this.state.get(againKey(table.relation.id)) !== undefined;
      return coverage && isAgain ? { ...table, coverage: { ...coverage, isUnpublished: true } } : table;
    });
  }

  /** The tables' changes are published as they were read, and the sink knows that. */
  published(tables: readonly SourceTable[]): void {
    for (const { relation } of tables) this.state.set(againKey(relation.id), null);
  }

  /** Records a change that was found elsewhere. The next `compare` warns of it. */
  record(tableId: number, reason: string): void {
    this.state.set(warningKey(tableId), reason);
    this.#lastFound.set(tableId, ++this.#found);
  }

  /** How many changes were found so far. Copies as of a later point have them all. */
  get found(): number {
    return this.#found;
  }

  /**
   * The table was copied as of a point before which `found` changes were known. If none of the table came since, its
   * rows are right again.
   */
  copied(tableId: number, found: number): void {
    if ((this.#lastFound.get(tableId) ?? 0) > found) return;
    this.state.set(warningKey(tableId), null);
    this.#warn();
  }

  /**
   * Changes of a relation are skipped, because its name at that position is not selected. Once acknowledged they do not
   * come again: see `durable`. Returns whether the table's present name is selected, as far as is known.
   */
  recordSkipped({ id, ...then }: Pick<Relation, "id" | "schema" | "name">): boolean {
    if (!this.#tables.has(id)) return false;
    this.state.set(warningKey(id), leftOutAs(then));
    this.#lastFound.set(id, ++this.#found);
    this.#isUnsaved = true;
    this.#warn();
    return true;
  }

  /** Resolves when everything that was skipped is recorded durably: the stream must not continue before. */
  async durable(): Promise<void> {
    if (!this.#isUnsaved) return;
    this.#isUnsaved = false;
    await this.state.durable();
  }

  /** What commits from `at` on was made under this shape of the table, or a later one. */
  addStreamed(shape: StreamedShape): void {
    const { id, isGuess } = shape.relation;
    if (isGuess) return;
    const others = (this.#streamed.get(id) ?? []).filter(({ at }) => at !== shape.at);
    const last = [...others, shape].sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-rememberedStreamed);
    this.#streamed.set(id, last);
  }

  /** What is known of the columns that a table had at a position in the stream. */
  history(tableId: number, at: Lsn): ColumnHistory {
    const streamed = this.#streamed.get(tableId)?.findLast((each) => each.at <= at);
    return columnHistory(this.#known(tableId)?.columns ?? [], streamed?.relation, at);
  }

  /** Removes entries of absent tables, except the `kept` latest. */
  #removeAbsent(prefix: string, kept: number): void {
    const isAbsent = (key: string) =>
      key.startsWith(prefix) && !this.#tables.has(Number(key.slice(prefix.length)));
    const absent = this.state.keys().filter(isAbsent);
    for (const key of absent.slice(0, Math.max(0, absent.length - kept))) this.state.set(key, null);
  }

  #compareTable(table: SourceTable, at: Lsn): void {
    const { id } = table.relation;
    const before = this.#known(id);
    const after = remember(before, table, at);
    const change = before ? silentChange(before, after, this.sinkFollowsShapes) : null;
    // All entries are saved together.
    if (change !== null) {
      this.state.set(warningKey(id), change.reason);
      if (change.isCopiedAgain) this.state.set(againKey(id), "");
      this.#lastFound.set(id, ++this.#found);
    }
    this.state.set(factsKey(id), JSON.stringify(after));
  }

  #known(tableId: number): RememberedTable | null {
    const text = this.state.get(factsKey(tableId));
    return text === undefined ? null : (JSON.parse(text) as RememberedTable);
  }

  #warn(): void {
    const standing = this.state
      .keys()
      .filter((key) => key.startsWith(warningPrefix))
      .flatMap((key) => this.#tables.get(Number(key.slice(warningPrefix.length))) ?? []);
    const shown = standing
      .slice(0, shownWarnings)
      .map((table) => silentChangeWarning(table, this.state.get(warningKey(table.id)) ?? ""));
    const more = standing.length > shown.length ? ` And ${standing.length - shown.length} tables more.` : "";
    const reason = standing.length === 0 ? null : shown.join(" ") + more;
    if (reason === this.#lastWarning) return;
    this.#lastWarning = reason;
    this.warning(reason);
  }
}

const shownWarnings = 3;
const rememberedStreamed = 10;
const rememberedGone = 100;
const factsPrefix = "columns of ";
const warningPrefix = "silent change of ";
const againPrefix = "copy again of ";
const againKey = (tableId: number) => `${againPrefix}${tableId}`;
const factsKey = (tableId: number) => `${factsPrefix}${tableId}`;
const warningKey = (tableId: number) => `${warningPrefix}${tableId}`;
