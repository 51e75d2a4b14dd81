// The shapes of tables in one stream: those that it announces, completed from the catalog, and those of shape markers.
// Decides when the catalog has to be read again, because the stream brought what the last read did not show.

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { awaitVisible } from "../stream/transaction-visibility.ts";
import type { GeneratedColumns } from "./generated-columns.ts";
import { type Announced, describeRelations } from "./relation-description.ts";
import { isSameRelation } from "./relation-registry.ts";
import { transformedRelation } from "./row-transform.ts";
import { ShapeMarkers } from "./shape-markers.ts";
import type { SilentChanges } from "./silent-changes.ts";
import { readTableShapes } from "./table-shapes.ts";

export interface StreamShapesOptions {
  readonly selection: TableSelection;
  readonly partitionsAsRoot: boolean;
  /** The user owns the publication. */
  readonly arePublicationsNamed: boolean;
  readonly silentChanges: SilentChanges;
  readonly generated: Pick<GeneratedColumns, "sends" | "requireSent">;
  readonly signal: AbortSignal;
}

export class StreamShapes {
  #tables: ReadonlyMap<number, TableShape> = new Map();
  #isStale = false;
  readonly #markers: ShapeMarkers;

  constructor(private readonly options: StreamShapesOptions) {
    const { selection, partitionsAsRoot, generated } = options;
    this.#markers = new ShapeMarkers((client, ids) =>
      readTableShapes(client, selection, partitionsAsRoot, ids, generated.sends),
    );
  }

  /**
   * Since the last read the stream has brought more than the catalog's fingerprint shows: the tables count as changed.
   */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** A read of the catalog begins: what the stream brings from here on may be later. */
  beginRead(): void {
    this.#isStale = false;
  }

  tablesRead(tables: readonly TableShape[]): void {
    this.#tables = new Map(tables.map((table) => [table.relation.id, table]));
  }

  /** Completes announced relations. */
  async describe(client: Client, announced: readonly Announced[]): Promise<readonly Relation[]> {
    const { selection, silentChanges, generated, signal } = this.options;
    const xids = announced.map(({ xid }) => xid);
    const described = await describeRelations(client, announced, {
      isComplete: await awaitVisible(client, xids, signal),
      history: (id, at) => silentChanges.history(id, at),
      mayWithhold: (relation, name) => this.#isListedByUser(relation) || selection.mayExclude(relation, name),
      checkGenerated: (relation, number, name) => {
        if (hidesColumns(selection, relation)) generated.requireSent(relation.id, number, name);
      },
      add: (shape) => silentChanges.addStreamed(shape),
    });
    const transformed = described.map((relation) =>
      transformedRelation(relation, selection, relation.isKeyedByHash === true),
    );
    // They may be shapes of long ago: the present ones have to follow them in the stream.
    this.#isStale ||= !transformed.every((relation) => this.#isAsRead(relation));
    return transformed;
  }

  /** Puts the present shapes of these tables into the stream. */
  async announce(client: Client, tables: readonly TableShape[]): Promise<void> {
    const left = await this.#markers.write(client, tables);
    this.#isStale ||= left.length > 0;
  }

  /** The shapes that hold from the shape marker on that the stream brought at `at`. */
  take(marker: string, at: Lsn): readonly Relation[] {
    const relations = this.#markers.take(marker);
    for (const relation of relations) this.options.silentChanges.addStreamed({ relation, at });
    return relations;
  }

  /**
   * Changes are skipped of a table whose name at that position is not selected. It may have its name back, which only
   * the catalog shows.
   */
  recordSkipped(relation: Pick<Relation, "id" | "schema" | "name">): void {
    const isSelected = this.options.silentChanges.recordSkipped(relation);
    this.#isStale ||= isSelected;
  }

  /** Then the user chooses which of its columns are published, now and before. */
  #isListedByUser(relation: Relation): boolean {
    return this.options.arePublicationsNamed && this.#tables.get(relation.id)?.coverage?.isListed !== false;
  }

  #isAsRead(relation: Relation): boolean {
    const read = this.#tables.get(relation.id)?.relation;
    return read !== undefined && !relation.isGuess && isSameRelation(read, relation);
  }
}

function hidesColumns(selection: TableSelection, relation: Relation): boolean {
  const { schema, name } = relation;
  return selection.hashedColumns(schema, name).length > 0 || selection.mayExclude(relation, null);
}
