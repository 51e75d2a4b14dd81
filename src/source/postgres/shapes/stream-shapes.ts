// The shapes of tables along one stream: those that it announces, completed from the catalog, and those that fences bring to
// their place. Tells when the catalog has to be looked at anew, since the stream met what the last look did not show.

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { awaitVisible } from "../stream/transaction-visibility.ts";
import { type Announced, describeRelations } from "./relation-description.ts";
import { isSameRelation } from "./relation-registry.ts";
import { renderedRelation } from "./row-rendering.ts";
import { ShapeFences } from "./shape-fences.ts";
import type { SilentChanges } from "./silent-changes.ts";
import { readTableShapes } from "./table-shapes.ts";

export interface StreamShapesOptions {
  readonly selection: TableSelection;
  readonly partitionsAsRoot: boolean;
  /** The publication is the user's own. */
  readonly arePublicationsNamed: boolean;
  readonly silentChanges: SilentChanges;
  readonly signal: AbortSignal;
}

export class StreamShapes {
  #tables: ReadonlyMap<number, TableShape> = new Map();
  #isStale = false;
  readonly #fences: ShapeFences;

  constructor(private readonly options: StreamShapesOptions) {
    const { selection, partitionsAsRoot } = options;
    this.#fences = new ShapeFences((client, ids) =>
      readTableShapes(client, selection, partitionsAsRoot, ids),
    );
  }

  /** What was met since the last look tells more than the catalog's fingerprint: the tables count as changed. */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** A look at the catalog begins: what is met from here on may be later than it. */
  beginLook(): void {
    this.#isStale = false;
  }

  looked(tables: readonly TableShape[]): void {
    this.#tables = new Map(tables.map((table) => [table.relation.id, table]));
  }

  /** Completes what the stream announced. */
  async describe(client: Client, announced: readonly Announced[]): Promise<readonly Relation[]> {
    const { selection, silentChanges, signal } = this.options;
    const xids = announced.map(({ xid }) => xid);
    const described = await describeRelations(client, announced, {
      isComplete: await awaitVisible(client, xids, signal),
      history: (id, at) => silentChanges.history(id, at),
      mayWithhold: (relation, name) => this.#isListedByUser(relation) || selection.mayExclude(relation, name),
      meet: (met) => silentChanges.meet(met),
    });
    const rendered = described.map((relation) =>
      renderedRelation(relation, selection, relation.isKeyedByHash === true),
    );
    // They may be shapes of long ago: what holds now has to follow them in the stream.
    this.#isStale ||= !rendered.every((relation) => this.#isAsSeen(relation));
    return rendered;
  }

  /** Has the shapes that these tables have now brought to their place in the stream. */
  async announce(client: Client, tables: readonly TableShape[]): Promise<void> {
    const left = await this.#fences.set(client, tables);
    this.#isStale ||= left.length > 0;
  }

  /** The shapes that hold from the fence on, which the stream brought at `at`. */
  take(fence: string, at: Lsn): readonly Relation[] {
    const relations = this.#fences.take(fence);
    for (const relation of relations) this.options.silentChanges.meet({ relation, at });
    return relations;
  }

  /** Changes come of a table that had a name then that is not selected. It may have got its name back, which only a look tells. */
  passOver(relation: Pick<Relation, "id" | "schema" | "name">): void {
    const isSelected = this.options.silentChanges.passOver(relation);
    this.#isStale ||= isSelected;
  }

  /** Which of its columns are published, now and before, is the user's choice. */
  #isListedByUser(relation: Relation): boolean {
    return this.options.arePublicationsNamed && this.#tables.get(relation.id)?.coverage?.isListed !== false;
  }

  #isAsSeen(relation: Relation): boolean {
    const seen = this.#tables.get(relation.id)?.relation;
    return seen !== undefined && !relation.isGuess && isSameRelation(seen, relation);
  }
}
