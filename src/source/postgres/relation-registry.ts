// Remembers the shape of each relation of a stream, and which of its columns are selected. pgoutput announces a
// relation before its first change and again whenever it may have changed; a row goes with the shape announced last.

import type { Column, Relation, TableShape } from "../../change/relation.ts";
import type { RelationMessage } from "./pgoutput-messages.ts";
import { replicaIdentityOf } from "./replica-identity.ts";
import { renderedRelation, type TupleRenderer, tupleRenderer } from "./row-rendering.ts";
import type { TableSelection } from "./table-selection.ts";

/** What the decoder needs of a relation at each change. */
export interface RelationSlot {
  relation: Relation;
  /** Columns that travel, by their place in the message; null when all do. */
  readonly keep: Uint8Array | null;
  readonly selected: boolean;
  /** Makes of a tuple what travels in its place; null: the tuple itself does. */
  readonly renderer: TupleRenderer | null;
  /** Index of the relation in the batch that is being filled; -1 before its first change there. */
  indexInBatch: number;
}

export class RelationRegistry {
  readonly #byOid = new Map<number, RelationSlot>();
  readonly #shapes: Map<number, TableShape>;

  constructor(
    private readonly selection: TableSelection,
    shapes: readonly TableShape[],
  ) {
    this.#shapes = new Map(shapes.map((shape) => [shape.relation.id, shape]));
  }

  find(oid: number): RelationSlot | undefined {
    return this.#byOid.get(oid);
  }

  /** Takes an announcement. The same shape again keeps the Relation object that batches already refer to. */
  announce(message: RelationMessage): void {
    const keep = this.#keep(message);
    const known = this.#byOid.get(message.oid);
    // Under identity full the message does not tell the key: one that is announced again may have another by now.
    const isKeyUnknown = known !== undefined && message.identity === "f";
    const plain = relationOf(message, keep, isKeyUnknown ? undefined : this.#shapes.get(message.oid));
    const relation = renderedRelation(plain, this.selection);
    if (known && !isKeyUnknown && isSameShape(known.relation, relation)) return;
    this.#byOid.set(message.oid, {
      relation,
      keep,
      selected: this.selection.includesTable(message.schema, message.name),
      renderer: tupleRenderer(relation, this.selection),
      indexInBatch: -1,
    });
  }

  /** Puts `described` in the place of `relation`, here and in the batches that hold it. */
  describe(relation: Relation, described: Relation, batches: readonly Relation[][]): void {
    const slot = this.#byOid.get(relation.id);
    if (slot?.relation === relation) slot.relation = described;
    for (const relations of batches) {
      const at = relations.indexOf(relation);
      if (at >= 0) relations[at] = described;
    }
  }

  /** Another batch begins: no relation has an index in it. */
  beginBatch(relations: readonly Relation[]): void {
    for (const slot of this.#byOid.values()) slot.indexInBatch = relations.indexOf(slot.relation);
  }

  #keep(message: RelationMessage): Uint8Array | null {
    const kept = message.columns.map((column) =>
      this.selection.includesColumn(message.schema, message.name, column.name),
    );
    return kept.every(Boolean) ? null : Uint8Array.from(kept, Number);
  }
}

/** Whether it still lacks what only the catalog knows: names of types, and a primary key under identity full. */
export function isUndescribed(relation: Relation): boolean {
  return relation.columns.some((column) => column.typeName === "");
}

function relationOf(
  message: RelationMessage,
  keep: Uint8Array | null,
  shape: TableShape | undefined,
): Relation {
  const sent = message.columns.filter((_, i) => keep === null || keep[i] === 1);
  const replicaIdentity = replicaIdentityOf(message.identity);
  const catalogKey = shape?.relation.key.map((i) => shape.relation.columns[i]?.name) ?? [];
  const isKey = (column: { name: string; inIdentity: boolean }) =>
    replicaIdentity === "full" ? catalogKey.includes(column.name) : column.inIdentity;
  return {
    id: message.oid,
    schema: message.schema,
    name: message.name,
    replicaIdentity,
    columns: sent.map(
      ({ name, typeOid, typmod }) =>
        knownColumn(shape, name, typeOid, typmod) ?? {
          name,
          typeOid,
          typmod,
          typeName: "",
          binaryLayout: null,
        },
    ),
    key: sent.flatMap((column, i) => (isKey(column) ? [i] : [])),
  };
}

function knownColumn(
  shape: TableShape | undefined,
  name: string,
  typeOid: number,
  typmod: number,
): Column | undefined {
  return shape?.relation.columns.find(
    (column) => column.name === name && column.typeOid === typeOid && column.typmod === typmod,
  );
}

/** Type names aside: they follow from the OIDs. */
function isSameShape(a: Relation, b: Relation): boolean {
  return (
    a.schema === b.schema &&
    a.name === b.name &&
    a.replicaIdentity === b.replicaIdentity &&
    a.columns.length === b.columns.length &&
    a.columns.every((column, i) => {
      const other = b.columns[i]!;
      return column.name === other.name && column.typeOid === other.typeOid && column.typmod === other.typmod;
    }) &&
    a.key.join() === b.key.join()
  );
}
