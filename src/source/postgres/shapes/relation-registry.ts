// Keeps the current shape of each relation of a stream, and which of its columns are selected. pgoutput announces a
// relation before its first change, and again whenever it may have changed. A row has the shape that was announced
// last.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { type Column, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { givenUp } from "../../../errors/given-up.ts";
import { areSameNames, type TableNames } from "../catalog/table-names.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { replicaIdentityOf } from "../publication/replica-identity.ts";
import type { RelationMessage, RelationMessageColumn } from "../stream/pgoutput-messages.ts";
import type { Announced } from "./relation-description.ts";
import { type TupleTransformer, transformedRelation, tupleTransformer } from "./row-transform.ts";

/** What the decoder needs of a relation for each change. */
export interface RelationSlot {
  /** The announcement, with the name that the relation has. */
  message: RelationMessage;
  relation: Relation;
  /** The shape before this announcement: the one announced before, or that of the catalog before the stream. */
  readonly previous: Relation | null;
  /** Selected columns by their index in the message; null: all are selected. */
  readonly keep: Uint8Array | null;
  readonly selected: boolean;
  /** Transforms a tuple before it is sent; null: it is sent as it is. */
  transformer: TupleTransformer | null;
  /** The relation's index in the batch that is being filled; -1 before its first change there. */
  indexInBatch: number;
}

export class RelationRegistry {
  readonly #byOid = new Map<number, RelationSlot>();
  /**
   * Announcements of the transaction in progress. Other transactions get their own, and at its commit the server does
   * not repeat these.
   */
  readonly #inProgress = new Map<number, RelationSlot>();
  #announcedInProgress: Relation[] = [];
  /** Tables that other transactions have announced since. */
  readonly #announcedSince = new Set<number>();
  /** The current messages belong to the transaction in progress. */
  isInBlock = false;
  readonly #shapes: Map<number, TableShape>;
  /** Relations that are not described yet, with the shape before them. */
  readonly #announced = new WeakMap<Relation, Announced & { readonly previous: Relation | null }>();
  /** What replaced each announced relation. */
  readonly #replacedBy = new WeakMap<Relation, Relation>();
  /** Table names as of positions that the stream has not reached, in stream order. */
  readonly #upcomingNames: TableNames[] = [];

  constructor(
    private readonly selection: TableSelection,
    shapes: readonly TableShape[],
    /** The shape that the last read of the catalog found. Throws where a table that must be known is not. */
    private readonly knownShape: (oid: number) => TableShape | undefined,
    /** Called when changes of a relation are about to be skipped, because its name at that position is not selected. */
    private readonly onSkipped: (relation: Pick<Relation, "id" | "schema" | "name">) => void,
    /** The form of the stream's tuples. */
    private readonly form: TupleForm,
    /** A generated column that the server sends and the connector leaves out. */
    private readonly leavesOut: (tableId: number, column: string) => boolean = () => false,
  ) {
    this.#shapes = new Map(shapes.map((shape) => [shape.relation.id, shape]));
  }

  find(oid: number): RelationSlot | undefined {
    const inProgress = this.isInBlock ? this.#inProgress.get(oid) : undefined;
    return inProgress ?? this.#byOid.get(oid);
  }

  /**
   * The transaction in progress has ended. `committed`: where; null: it was rolled back, and the server announces its
   * relations again to others.
   */
  endInProgress(committed: { readonly at: Lsn; readonly xid: number } | null): void {
    if (committed) {
      for (const relation of this.#announcedInProgress) {
        const announced = this.#announced.get(relation);
        if (announced) this.#announced.set(relation, { ...announced, ...committed });
      }
      for (const [oid, slot] of this.#inProgress) {
        if (!this.#announcedSince.has(oid)) this.#byOid.set(oid, slot);
      }
    }
    this.#inProgress.clear();
    this.#announcedInProgress = [];
    this.#announcedSince.clear();
  }

  /**
   * Takes an announcement of the transaction `xid`, whose commit record is at `at`. It must be described before its
   * rows are handed out: a column may be another one than the column of the same name that the last read of the catalog
   * found.
   */
  announce(message: RelationMessage, at: Lsn, xid: number): void {
    const { leftOut, keep, selected, announced, isKeyless, transformer } = this.#carried(message);
    const last = this.find(message.oid)?.relation;
    if (!selected) this.onSkipped(announced);
    // `describe` transforms the relation itself. Whether it is keyless is decided here.
    const relation = { ...announced, ...(isKeyless ? { isKeyedByHash: true as const } : {}) };
    const previous = last ?? this.#shapes.get(message.oid)?.relation ?? null;
    if (selected) this.#announced.set(relation, { relation, at, xid, leftOut, previous });
    if (this.isInBlock) this.#announcedInProgress.push(relation);
    if (this.isInBlock) this.#announcedSince.delete(message.oid);
    else if (this.#inProgress.has(message.oid)) this.#announcedSince.add(message.oid);
    (this.isInBlock ? this.#inProgress : this.#byOid).set(message.oid, {
      message,
      relation,
      previous,
      keep,
      selected,
      transformer,
      indexInBatch: -1,
    });
  }

  /** What is carried of an announced relation's rows, and how. */
  #carried(message: RelationMessage) {
    const leftOut = message.columns.flatMap(({ name }) => (this.leavesOut(message.oid, name) ? name : []));
    const keep = this.#keep(message, leftOut);
    const selected = this.selection.includesTable(message.schema, message.name);
    const announced = relationOf(message, keep);
    const isKeyless = selected && this.#isKeyless(announced);
    const transformed = selected ? transformedRelation(announced, this.selection, isKeyless) : announced;
    const transformer = tupleTransformer(transformed, this.selection, this.form);
    return { leftOut, keep, selected, announced, isKeyless, transformed, transformer };
  }

  /**
   * Replaces an announced relation by its table's previous shape, in these lists, and returns that shape. Null: the two
   * differ, or the previous shape is not known.
   */
  assume(relation: Relation, lists: readonly Relation[][]): Relation | null {
    const before = this.#announced.get(relation)?.previous ?? null;
    const previous = before && (this.#replacedBy.get(before) ?? before);
    // A relation that was never described has no column numbers.
    const isKnown =
      previous !== null && !previous.isGuess && previous.columns.every(({ number }) => number > 0);
    if (!isKnown || !isSameShape(relation, previous)) return null;
    this.#replace(relation, previous, lists);
    return previous;
  }

  /** Takes the names of all tables as of a position, before tables that are new by these names are copied. */
  addTableNames(names: TableNames): void {
    const last = this.#upcomingNames.at(-1);
    // Far behind, many of them may pile up: equal ones share one map.
    const byOid = last && areSameNames(last.byOid, names.byOid) ? last.byOid : names.byOid;
    this.#upcomingNames.push({ byOid, at: names.at });
  }

  /**
   * The transaction `xid` begins, whose commit record is at `at`. A relation whose name is selected now, and was not
   * when it was announced, is carried from here on; one whose name no longer is selected is not. Returns whether there
   * is such a relation.
   */
  reach(at: Lsn, xid: number): boolean {
    let names: TableNames | undefined;
    while (this.#upcomingNames[0] && this.#upcomingNames[0].at <= at) names = this.#upcomingNames.shift();
    if (!names) return false;
    let isAny = false;
    for (const [oid, { message, selected }] of [...this.#byOid, ...this.#inProgress]) {
      const name = names.byOid.get(oid);
      if (!name || this.selection.includesTable(name.schema, name.name) === selected) continue;
      this.announce({ ...message, ...name }, at, xid);
      isAny = true;
    }
    // Some of the transaction's rows came under the old names.
    if (isAny && this.#inProgress.size > 0) throw givenUp("tables got other names meanwhile");
    return isAny;
  }

  /**
   * Takes the shape of a shape marker: the table may have another name by now. The server does not announce it again
   * when a partition's root is renamed, nor, before version 16, when a table's schema is.
   */
  rename(relation: Relation): void {
    const slot = this.#byOid.get(relation.id);
    if (!slot?.selected || qualifiedName(slot.relation) === qualifiedName(relation)) return;
    const message = { ...slot.message, schema: relation.schema, name: relation.name };
    const { selected, keep, transformed, transformer } = this.#carried(message);
    // Under another name other columns may be left out: then the rows that come have another shape than the marker's. What was announced last may
    // not be described yet.
    const isSame = isSameShape(transformed, relation) && Bun.deepEquals(keep, slot.keep);
    if (selected && isSame) Object.assign(slot, { message, relation, transformer });
  }

  /** The announcements of those relations that are not described yet. */
  undescribed(relations: readonly Relation[]): readonly Announced[] {
    return relations.flatMap((relation) => this.#announced.get(relation) ?? []);
  }

  /**
   * Replaces `relation` by `described`, here and in the batches that have it. Where `described` equals the shape before
   * the announcement, that object is used, so that what is known of it stays known.
   */
  describe(relation: Relation, described: Relation, batches: readonly Relation[][]): void {
    const slot = this.#slotsOf(relation)[0] ?? this.#byOid.get(relation.id);
    const isOld = slot?.previous && !described.isGuess && isSameRelation(slot.previous, described);
    this.#replace(relation, isOld ? slot.previous : described, batches);
  }

  #replace(relation: Relation, replacement: Relation, batches: readonly Relation[][]): void {
    this.#announced.delete(relation);
    this.#replacedBy.set(relation, replacement);
    for (const slot of this.#slotsOf(relation)) slot.relation = replacement;
    for (const relations of batches) {
      const at = relations.indexOf(relation);
      if (at >= 0) relations[at] = replacement;
    }
  }

  #slotsOf(relation: Relation): readonly RelationSlot[] {
    const slots = [this.#byOid.get(relation.id), this.#inProgress.get(relation.id)];
    return slots.filter((slot) => slot !== undefined).filter((slot) => slot.relation === relation);
  }

  /** Another batch begins, with these relations. */
  beginBatch(relations: readonly Relation[]): void {
    for (const slots of [this.#byOid, this.#inProgress]) {
      // A table that was announced again as it was stands there twice: changes of one table never go back to an earlier index.
      for (const slot of slots.values()) slot.indexInBatch = relations.lastIndexOf(slot.relation);
    }
  }

  /** Under identity full the announcement does not contain the primary key. */
  #isKeyless(relation: Relation): boolean {
    if (!this.selection.hashesKeylessRows) return false;
    if (relation.replicaIdentity !== "full") return relation.key.length === 0;
    const shape = this.knownShape(relation.id);
    return shape === undefined || shape.relation.isKeyedByHash === true;
  }

  #keep({ schema, name: table, columns }: RelationMessage, leftOut: readonly string[]): Uint8Array | null {
    const kept = columns.map(
      ({ name }) => this.selection.includesColumn(schema, table, name) && !leftOut.includes(name),
    );
    return kept.every(Boolean) ? null : Uint8Array.from(kept, Number);
  }
}

function relationOf(message: RelationMessage, keep: Uint8Array | null): Relation {
  const sent = message.columns.filter((_, i) => keep === null || keep[i] === 1);
  const replicaIdentity = replicaIdentityOf(message.identity);
  const isKey = ({ inIdentity }: RelationMessageColumn) => replicaIdentity !== "full" && inIdentity;
  return {
    id: message.oid,
    schema: message.schema,
    name: message.name,
    replicaIdentity,
    columns: sent.map(undescribedColumn),
    key: sent.flatMap((column, i) => (isKey(column) ? [i] : [])),
    withheld: [],
  };
}

function undescribedColumn({ name, typeOid, typmod }: RelationMessageColumn): Column {
  return { name, number: 0, typeOid, typmod, typeName: "", binaryLayout: null, addedValue: null };
}

/** Compares what an announcement contains. Under identity full it does not contain the key. */
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
    (a.replicaIdentity === "full" || a.key.join() === b.key.join())
  );
}

/** Compares everything that matters to a sink. */
export function isSameRelation(a: Relation, b: Relation): boolean {
  return (
    isSameShape(a, b) &&
    a.key.join() === b.key.join() &&
    a.keyId === b.keyId &&
    a.withheld.join() === b.withheld.join() &&
    a.columns.every((column, i) => column.number === b.columns[i]!.number)
  );
}
