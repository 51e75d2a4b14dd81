// Remembers the shape of each relation of a stream, and which of its columns are selected. pgoutput announces a
// relation before its first change and again whenever it may have changed; a row goes with the shape announced last.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { type Column, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { givenUp } from "../../../errors/given-up.ts";
import { areSameNames, type TableNames } from "../catalog/table-names.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { replicaIdentityOf } from "../publication/replica-identity.ts";
import type { RelationMessage, RelationMessageColumn } from "../stream/pgoutput-messages.ts";
import type { Announced } from "./relation-description.ts";
import { renderedRelation, type TupleRenderer, tupleRenderer } from "./row-rendering.ts";

/** What the decoder needs of a relation at each change. */
export interface RelationSlot {
  /** As it was announced, under the name that it had then. */
  readonly message: RelationMessage;
  relation: Relation;
  /** What held before the announcement: the shape announced then, or the one that the catalog had before the stream. */
  readonly previous: Relation | null;
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
  /** What the transaction in progress has announced: others hear of it, and are not told once more, when it is committed. */
  readonly #early = new Map<number, RelationSlot>();
  #announcedEarly: Relation[] = [];
  /** What others have been told of later. */
  readonly #toldLater = new Set<number>();
  /** What comes is of the transaction in progress. */
  isInBlock = false;
  readonly #shapes: Map<number, TableShape>;
  /** What is not described yet, with what held before it. */
  readonly #announced = new WeakMap<Relation, Announced & { readonly previous: Relation | null }>();
  /** What was put in the place of what was announced. */
  readonly #settled = new WeakMap<Relation, Relation>();
  /** What looks at the catalog found, of places that the stream has not reached; the earliest first. */
  readonly #ahead: TableNames[] = [];

  constructor(
    private readonly selection: TableSelection,
    shapes: readonly TableShape[],
    /** The shape that the catalog had at the last look. Throws where a table is not known and has to be. */
    private readonly knownShape: (oid: number) => TableShape | undefined,
    /** Changes of a relation are about to come, and to be passed over, since the catalog leaves out its name of then. */
    private readonly passedOver: (relation: Pick<Relation, "id" | "schema" | "name">) => void,
    /** The stream's. */
    private readonly form: TupleForm,
  ) {
    this.#shapes = new Map(shapes.map((shape) => [shape.relation.id, shape]));
  }

  find(oid: number): RelationSlot | undefined {
    const early = this.isInBlock ? this.#early.get(oid) : undefined;
    return early ?? this.#byOid.get(oid);
  }

  /**
   * The transaction in progress has ended: `committed` says where. Of what one that was rolled back has announced, others are told
   * by themselves.
   */
  endInProgress(committed: { readonly at: Lsn; readonly xid: number } | null): void {
    if (committed) {
      for (const relation of this.#announcedEarly) {
        const announced = this.#announced.get(relation);
        if (announced) this.#announced.set(relation, { ...announced, ...committed });
      }
      for (const [oid, slot] of this.#early) if (!this.#toldLater.has(oid)) this.#byOid.set(oid, slot);
    }
    this.#early.clear();
    this.#announcedEarly = [];
    this.#toldLater.clear();
  }

  /**
   * Takes an announcement of the transaction `xid`, whose commit record is `at`. Each has to be described before its rows are
   * handed out: a column of the same name may be another than the catalog had when it was read.
   */
  announce(message: RelationMessage, at: Lsn, xid: number): void {
    const keep = this.#keep(message);
    const last = this.find(message.oid)?.relation;
    const selected = this.selection.includesTable(message.schema, message.name);
    const announced = relationOf(message, keep);
    if (!selected) this.passedOver(announced);
    const isKeyless = selected && this.#isKeyless(announced);
    const rendered = selected ? renderedRelation(announced, this.selection, isKeyless) : announced;
    // Rendered when it is described: by what was decided here.
    const relation = { ...announced, ...(isKeyless ? { isKeyedByHash: true as const } : {}) };
    const previous = last ?? this.#shapes.get(message.oid)?.relation ?? null;
    if (selected) this.#announced.set(relation, { relation, at, xid, previous });
    if (this.isInBlock) this.#announcedEarly.push(relation);
    if (this.isInBlock) this.#toldLater.delete(message.oid);
    else if (this.#early.has(message.oid)) this.#toldLater.add(message.oid);
    (this.isInBlock ? this.#early : this.#byOid).set(message.oid, {
      message,
      relation,
      previous,
      keep,
      selected,
      renderer: tupleRenderer(rendered, this.selection, this.form),
      indexInBatch: -1,
    });
  }

  /**
   * Takes an announced relation for what was known of its table before, in these lists. Returns that; null: it says something else,
   * or nothing was known.
   */
  assume(relation: Relation, lists: readonly Relation[][]): Relation | null {
    const before = this.#announced.get(relation)?.previous ?? null;
    const previous = before && (this.#settled.get(before) ?? before);
    // One that was not described has no numbers.
    const isKnown =
      previous !== null && !previous.isGuess && previous.columns.every(({ number }) => number > 0);
    if (!isKnown || !isSameShape(relation, previous)) return null;
    this.#settle(relation, previous, lists);
    return previous;
  }

  /** Takes what the tables are called at a place in the stream, before copies are made of those that are new by it. */
  looked(names: TableNames): void {
    const last = this.#ahead.at(-1);
    // Far behind, there may be many looks: what they have in common is held once.
    const byOid = last && areSameNames(last.byOid, names.byOid) ? last.byOid : names.byOid;
    this.#ahead.push({ byOid, at: names.at });
  }

  /**
   * The transaction `xid` begins, whose commit record is `at`. A relation whose name is selected by now, and was not when it was
   * announced, travels from here on; one whose name no longer is does not. Returns whether there is one.
   */
  reach(at: Lsn, xid: number): boolean {
    let names: TableNames | undefined;
    while (this.#ahead[0] && this.#ahead[0].at <= at) names = this.#ahead.shift();
    if (!names) return false;
    let isAny = false;
    for (const [oid, { message, selected }] of [...this.#byOid, ...this.#early]) {
      const name = names.byOid.get(oid);
      if (!name || this.selection.includesTable(name.schema, name.name) === selected) continue;
      this.announce({ ...message, ...name }, at, xid);
      isAny = true;
    }
    // Of its rows, some came before this.
    if (isAny && this.#early.size > 0) throw givenUp("tables got other names meanwhile");
    return isAny;
  }

  /**
   * Takes what a fence told of a table: it may be called otherwise by now. The server does not announce it again when a partition's
   * root is renamed, nor before version 16 a table when its schema is.
   */
  rename(relation: Relation): void {
    const slot = this.#byOid.get(relation.id);
    const isPlain = slot?.selected && slot.keep === null && slot.renderer === null;
    if (!isPlain || qualifiedName(slot.relation) === qualifiedName(relation)) return;
    const { schema, name } = slot.relation;
    if (isSameShape(slot.relation, { ...relation, schema, name })) slot.relation = relation;
  }

  /** Those of the relations that are not described yet, as they were announced. */
  undescribed(relations: readonly Relation[]): readonly Announced[] {
    return relations.flatMap((relation) => this.#announced.get(relation) ?? []);
  }

  /**
   * Puts `described` in the place of `relation`, here and in the batches that hold it; the relation from before the
   * announcement where it says the same, so that what is known of that stays known.
   */
  describe(relation: Relation, described: Relation, batches: readonly Relation[][]): void {
    const slot = this.#slotsOf(relation)[0] ?? this.#byOid.get(relation.id);
    const isOld = slot?.previous && !described.isGuess && isSameRelation(slot.previous, described);
    this.#settle(relation, isOld ? slot.previous : described, batches);
  }

  #settle(relation: Relation, settled: Relation, batches: readonly Relation[][]): void {
    this.#announced.delete(relation);
    this.#settled.set(relation, settled);
    for (const slot of this.#slotsOf(relation)) slot.relation = settled;
    for (const relations of batches) {
      const at = relations.indexOf(relation);
      if (at >= 0) relations[at] = settled;
    }
  }

  #slotsOf(relation: Relation): readonly RelationSlot[] {
    const slots = [this.#byOid.get(relation.id), this.#early.get(relation.id)];
    return slots.filter((slot) => slot !== undefined).filter((slot) => slot.relation === relation);
  }

  /** Another batch begins: no relation has an index in it. */
  beginBatch(relations: readonly Relation[]): void {
    for (const slots of [this.#byOid, this.#early]) {
      for (const slot of slots.values()) slot.indexInBatch = relations.indexOf(slot.relation);
    }
  }

  /** Under identity full the message does not tell the primary key. */
  #isKeyless(relation: Relation): boolean {
    if (!this.selection.hashesKeylessRows) return false;
    if (relation.replicaIdentity !== "full") return relation.key.length === 0;
    const shape = this.knownShape(relation.id);
    return shape === undefined || shape.relation.isKeyedByHash === true;
  }

  #keep(message: RelationMessage): Uint8Array | null {
    const kept = message.columns.map((column) =>
      this.selection.includesColumn(message.schema, message.name, column.name),
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

/** By what an announcement tells. Under identity full that is not the key. */
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

/** By all that matters to a sink. */
export function isSameRelation(a: Relation, b: Relation): boolean {
  return (
    isSameShape(a, b) &&
    a.key.join() === b.key.join() &&
    a.keyId === b.keyId &&
    a.withheld.join() === b.withheld.join() &&
    a.columns.every((column, i) => column.number === b.columns[i]!.number)
  );
}
