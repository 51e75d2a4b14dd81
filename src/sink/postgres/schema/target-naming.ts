// Names the source's schemas, tables and columns at the sink: as at the source, or by Fivetran's rules. Knows which tables share a target.
// https://fivetran.com/docs/core-concepts/naming-conventions

import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { IdentifierNaming } from "../../../connector/connector.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { relocateTypes } from "../types/type-relocation.ts";
import { snakeName } from "./snake-name.ts";
import { maxNameBytes, type TargetName } from "./target-name.ts";

/** A relation with its columns' names at the sink. */
export interface NamedRelation {
  readonly relation: Relation;
  /** For each column of the source's tuple, whether it is written; null: all are. */
  readonly keep: readonly boolean[] | null;
}

export class TargetNaming {
  readonly #known = new WeakMap<Relation, NamedRelation>();
  readonly #shared = new Set<string>();
  readonly #fivetran: IdentifierNaming["FivetranNaming"];

  constructor(
    private readonly targetSchema: PostgresSinkConfig["target_schema"],
    naming: IdentifierNaming = { SourceNaming: {} },
  ) {
    this.#fivetran = naming.FivetranNaming;
  }

  /**
   * Takes all tables. Throws `sink_schema_mismatch` if two of them have the same target, unless they are to be merged and have keys that tell
   * their rows apart.
   */
  claim(tables: readonly TableShape[]): void {
    this.#shared.clear();
    const bySource = new Map<string, Relation>();
    for (const { relation } of tables) {
      const target = qualifiedName(this.target(relation));
      const other = bySource.get(target);
      bySource.set(target, relation);
      if (!other) continue;
      if (this.#fivetran?.table_conflict !== "Merge") throw sameTarget(other, relation, target);
      const keys = [other, relation].map((table) => keyNames(this.named(table).relation));
      if (keys[0] === "" || keys[0] !== keys[1]) throw notMergeable(other, relation, target);
      this.#shared.add(target);
    }
  }

  /** Columns may have other names at the sink. */
  get renames(): boolean {
    return this.#fivetran !== undefined;
  }

  get hasShared(): boolean {
    return this.#shared.size > 0;
  }

  /** Whether its target has rows of other tables too. */
  isShared(relation: Pick<Relation, "schema" | "name">): boolean {
    return this.hasShared && this.#shared.has(qualifiedName(this.target(relation)));
  }

  /** The name of its shared target; null: the target is not shared. */
  sharedAs(relation: Pick<Relation, "schema" | "name">): string | null {
    return this.isShared(relation) ? qualifiedName(this.target(relation)) : null;
  }

  /** `target_schema` is used as it is. */
  target({ schema, name }: Pick<Relation, "schema" | "name">): TargetName {
    return { schema: this.schema(schema), name: this.#fivetran ? cut(snakeName(name, "table")) : name };
  }

  schema(schema: string): string {
    if (this.targetSchema !== null) return this.targetSchema;
    if (!this.#fivetran) return schema;
    const { schema_prefix: prefix } = this.#fivetran;
    return cut(snakeName(prefix === null ? schema : `${prefix}_${schema}`, "schema"));
  }

  /** Renames columns and user-defined types. Returns the same relation if nothing changes. Throws `column_conflict` if two columns get one name. */
  named(relation: Relation): NamedRelation {
    const known = this.#known.get(relation);
    if (known) return known;
    const twin = relocateTypes(relation, (schema) => this.schema(schema));
    const named = this.#fivetran ? this.#rename(twin) : { relation: twin, keep: null };
    this.#known.set(relation, named);
    // A relation that was named by this naming already is returned as it is.
    this.#known.set(named.relation, { relation: named.relation, keep: null });
    return named;
  }

  /** A table's shape with the sink's names. */
  shape(table: TableShape): TableShape {
    const { relation, keep } = this.named(table.relation);
    if (!this.#fivetran) return relation === table.relation ? table : { ...table, relation };
    const column = (name: string) => cut(snakeName(name, "column"));
    const { coverage } = table;
    // A column that is left out has the name of another one, which may take null.
    const kept = table.relation.columns.filter((_, i) => keep?.[i] ?? true).map(({ name }) => name);
    return {
      ...table,
      relation,
      primaryKey: table.primaryKey.map(column),
      notNull: table.notNull.filter((name) => kept.includes(name)).map(column),
      ...(coverage ? { coverage: { ...coverage, excluded: coverage.excluded.map(column) } } : {}),
    };
  }

  #rename(relation: Relation): NamedRelation {
    const names = relation.columns.map(({ name }) => cut(snakeName(name, "column")));
    const keep = names.map((name, i) => names.indexOf(name) === i);
    if (relation.columns.every(({ name }, i) => name === names[i])) return { relation, keep: null };
    const columns = relation.columns.map((column, i) => ({ ...column, name: names[i]! }));
    if (keep.every(Boolean)) return { relation: { ...relation, columns }, keep: null };
    this.#requireDroppable(relation, names, keep);
    const places = keep.map((_, i) => keep.slice(0, i).filter(Boolean).length);
    const left = columns.filter((_, i) => !keep[i]).map(({ number }) => number);
    const writable = {
      ...relation,
      columns: columns.filter((_, i) => keep[i]),
      key: relation.key.map((i) => places[i]!),
      withheld: [...relation.withheld, ...left].sort((a, b) => a - b),
      displaced: left,
    };
    return { relation: writable, keep };
  }

  #requireDroppable(relation: Relation, names: readonly string[], keep: readonly boolean[]): void {
    const isKept = this.#fivetran?.column_conflict === "KeepFirst";
    if (isKept && relation.key.every((i) => keep[i])) return;
    const second = keep.indexOf(false);
    const [one, other] = [names.indexOf(names[second]!), second].map((i) => relation.columns[i]?.name);
    throw new MillraceError(
      "column_conflict",
      `Columns "${one}" and "${other}" of ${qualifiedName(relation)} would both be called ${names[second]} at the sink: ` +
        `exclude one of them in the catalog, rename it, or take ${isKept ? "SourceNaming" : "column_conflict KeepFirst"}.`,
    );
  }
}

/** Empty if nothing identifies a row, or if the key is a hash of the row. */
function keyNames({ key, columns, isKeyedByHash }: Relation): string {
  return isKeyedByHash ? "" : key.map((i) => columns[i]?.name).join();
}

function sameTarget(one: Relation, other: Relation, target: string): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `Tables ${qualifiedName(one)} and ${qualifiedName(other)} of the source would both be written to ${target}: leave one of ` +
      "them out of the catalog, or change target_schema or identifier_naming.",
  );
}

function notMergeable(one: Relation, other: Relation, target: string): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `Tables ${qualifiedName(one)} and ${qualifiedName(other)} of the source are to be merged into ${target}, and have not the ` +
      "same key: give both a primary key of the same columns, or leave one of them out of the catalog.",
  );
}

/** For names that `snakeName` has made: each character is one byte. */
function cut(name: string): string {
  return name.slice(0, maxNameBytes);
}
