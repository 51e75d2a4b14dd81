// Creates the source's user-defined types at the sink, before a table or a column needs them. If a type cannot be created, its columns are
// text.
// https://www.postgresql.org/docs/current/sql-createtype.html

import type { Client } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { EnumLabel, TypeDefinition } from "../../../change/type-definition.ts";
import { inSavepoint } from "../../../connection/in-savepoint.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { createSchemas } from "../schema/table-schema.ts";
import { type EnumRename, enumChanges } from "./enum-changes.ts";
import { type ExistingType, isIncompatible, readExistingTypes } from "./existing-type.ts";
import { readKnownLabels, recordLabels, renamedSince } from "./known-labels.ts";
import { alterations, areLabelsOurs } from "./type-alterations.ts";
import { claimTypes, recordMade } from "./type-claims.ts";
import { dropReplacedTypes, replaceTypes } from "./type-replacement.ts";
import { createTypeSql } from "./type-sql.ts";

/** Called with types, by qualified name, whose labels may have been renamed. `isFollowed`: the type is altered, so that its columns follow. */
export type OnAmbiguousLabels = (
  types: ReadonlyMap<string, { readonly isFollowed: boolean }>,
) => Promise<void>;

export class TypeMaker {
  /** Types that exist or that cannot be created. */
  readonly #settled = new Set<string>();
  /** Problems by type. */
  readonly #problems = new Map<string, string>();
  #hasWarned = false;

  constructor(
    private readonly connectorId: string,
    private readonly may: {
      /** Existing types may be altered. */
      readonly alter: boolean;
      /** Labels may be renamed, as a copy can bring rows with the old one. Otherwise new labels are added. */
      readonly rename: boolean;
    },
    /** Null: there is no problem any more. */
    private readonly warn: (reason: string | null) => void,
  ) {}

  /**
   * Compares all types with the source's and alters them. In no transaction, as a new label can be used only after a commit. `onAmbiguous` is
   * called before types are altered whose labels may have been renamed, and for recreated types inside their transaction.
   */
  async refresh(
    client: Client,
    relations: readonly Relation[],
    onAmbiguous: OnAmbiguousLabels,
  ): Promise<void> {
    this.#settled.clear();
    this.#problems.clear();
    const wanted = distinctTypes(relations);
    if (wanted.size > 0) await this.#refreshAll(client, wanted, onAmbiguous);
    await dropReplacedTypes(client);
    this.#report();
  }

  async #refreshAll(
    client: Client,
    wanted: ReadonlyMap<string, TypeDefinition>,
    onAmbiguous: OnAmbiguousLabels,
  ): Promise<void> {
    await client.query("begin");
    let existing = await this.#make(client, wanted);
    if (this.may.alter && this.may.rename) {
      const replaced = await replaceTypes(client, this.connectorId, wanted, existing);
      if (replaced.length > 0) {
        // In the same transaction: the values of their columns are void.
        await onAmbiguous(new Map(replaced.map((key) => [key, { isFollowed: false }])));
        existing = await readExistingTypes(client, [...wanted.values()], this.connectorId);
      }
    }
    await client.query("commit");
    const known = await readKnownLabels(client, this.connectorId);
    const renamed = [...wanted].filter(
      ([key, type]) =>
        areLabelsRenamed(type, existing.get(key)) || renamedSince(known.get(key), type).length > 0,
    );
    const isFollowed = (key: string, type: TypeDefinition) =>
      this.may.alter && this.may.rename && areLabelsFollowed(type, existing.get(key), known.get(key));
    if (renamed.length > 0)
      await onAmbiguous(new Map(renamed.map(([key, type]) => [key, { isFollowed: isFollowed(key, type) }])));
    for (const [key, definition] of this.may.alter ? wanted : []) {
      const there = existing.get(key);
      if (!there) continue;
      for (const sql of alterations(definition, there, this.may.rename))
        await this.#alter(client, definition, sql);
    }
    await recordLabels(client, this.connectorId, wanted, known);
  }

  /** In the open transaction: creates the types that a relation needs and that do not exist. */
  async make(client: Client, relation: Relation): Promise<void> {
    const wanted = distinctTypes([relation]);
    for (const key of wanted.keys()) if (this.#settled.has(key)) wanted.delete(key);
    if (wanted.size === 0) return;
    await this.#make(client, wanted);
    this.#report();
  }

  /** Call it after a rollback, which may have undone created types. */
  forget(): void {
    this.#settled.clear();
  }

  #report(): void {
    if (this.#problems.size > 0) this.warn([...this.#problems.values()].join(" "));
    else if (this.#hasWarned) this.warn(null);
    this.#hasWarned = this.#problems.size > 0;
  }

  async #make(
    client: Client,
    wanted: ReadonlyMap<string, TypeDefinition>,
  ): Promise<ReadonlyMap<string, ExistingType>> {
    const keys = [...wanted.values()];
    const existing = await readExistingTypes(client, keys, this.connectorId);
    for (const [key, definition] of wanted) {
      if (!existing.has(key)) await this.#create(client, definition);
      this.#settled.add(key);
    }
    const areClaimed = await claimTypes(client, this.connectorId, wanted, existing);
    return areClaimed ? await readExistingTypes(client, keys, this.connectorId) : existing;
  }

  async #create(client: Client, definition: TypeDefinition): Promise<void> {
    try {
      await inSavepoint(client, async () => {
        await createSchemas(client, new Set([definition.schema]));
        await client.query(createTypeSql(definition));
        await requireOrder(client, definition);
        await recordMade(client, this.connectorId, definition);
      });
    } catch (error) {
      const sql =
        error instanceof MillraceError
          ? ""
          : ` Run, before the tables are made: ${createTypeSql(definition)};`;
      this.#problems.set(
        qualifiedName(definition),
        `Type ${qualifiedName(definition)} cannot be made at the sink, and its values are kept as text there: ` +
          `${describePostgresError(error, "sink").message}${sql}`,
      );
    }
  }

  async #alter(client: Client, definition: TypeDefinition, sql: string): Promise<void> {
    try {
      await client.query(sql);
    } catch (error) {
      const { message } = describePostgresError(error, "sink");
      this.#problems.set(
        qualifiedName(definition),
        `Type ${qualifiedName(definition)} at the sink is not as the source's is: ${message} Run: ${sql};`,
      );
    }
  }
}

/** Throws where a range that was made orders text otherwise than the source's: it would refuse values. */
async function requireOrder(client: Client, definition: TypeDefinition): Promise<void> {
  if (definition.kind !== "range") return;
  const [made] = (await readExistingTypes(client, [definition], null)).values();
  if (made && isIncompatible(definition, made))
    throw new MillraceError("sink_schema_mismatch", "its text has another locale or encoding there.");
}

/** Whether the source has new labels and lacks existing ones: some may have been renamed. */
function areLabelsRenamed(definition: TypeDefinition, existing: ExistingType | undefined): boolean {
  if (definition.kind !== "enum" || !existing?.labels) return false;
  const here = new Set(existing.labels);
  const there = new Set(definition.labels.map(({ name }) => name));
  return !there.isSubsetOf(here) && !here.isSubsetOf(there);
}

/** Whether labels that are renamed, as far as they are known, are renamed in the rows at the sink. */
function areLabelsFollowed(
  definition: TypeDefinition,
  existing: ExistingType | undefined,
  known: readonly EnumLabel[] | undefined,
): boolean {
  if (definition.kind !== "enum" || !areLabelsOurs(existing)) return false;
  const made = enumChanges(definition.labels, existing?.labels ?? [], true);
  const isMade = ({ from, to }: EnumRename) =>
    made.some((change) => change.kind === "rename" && change.from === from && change.to === to);
  return renamedSince(known, definition).every(isMade);
}

function distinctTypes(relations: readonly Relation[]): Map<string, TypeDefinition> {
  const types = new Map<string, TypeDefinition>();
  for (const { columns } of relations) {
    for (const { typeDefinitions } of columns) {
      for (const definition of typeDefinitions ?? []) types.set(qualifiedName(definition), definition);
    }
  }
  return types;
}
