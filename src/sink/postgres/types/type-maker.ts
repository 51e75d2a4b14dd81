// Makes the source's own types at the sink, before a table or a column needs them. One that cannot be made is none: its columns
// are text then.
// https://www.postgresql.org/docs/current/sql-createtype.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { TypeDefinition } from "../../../change/type-definition.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { createSchemas } from "../schema/table-schema.ts";
import { type EnumChange, enumChanges } from "./enum-changes.ts";
import { type ExistingType, isMisfit, readExistingTypes } from "./existing-type.ts";
import { dropReplacedTypes, replaceTypes } from "./type-replacement.ts";
import { createTypeSql, useSql } from "./type-sql.ts";

/** By the types' qualified names. `isFollowed`: columns of the type itself have the new labels by what is done to it here. */
export type Doubt = (types: ReadonlyMap<string, { readonly isFollowed: boolean }>) => Promise<void>;

const failed = "millrace_type";

export class TypeMaker {
  /** Types that are there, or that cannot be made. */
  readonly #settled = new Set<string>();
  /** What is the matter with types, by type. */
  readonly #troubles = new Map<string, string>();
  #hasWarned = false;

  constructor(
    private readonly may: {
      /** Types that are there may be changed. */
      readonly alter: boolean;
      /** Labels may be renamed: rows that come with the old one are had from a copy then. Else they are added. */
      readonly rename: boolean;
    },
    /** Null: nothing is the matter any more. */
    private readonly warn: (reason: string | null) => void,
  ) {}

  /**
   * Looks at all types anew. In no transaction: a label that was added can be used behind it. `doubt` is told of types of which labels
   * may have been renamed at the source; they are altered when it returns. And of types that were made anew, in the transaction.
   */
  async look(client: Client, relations: readonly Relation[], doubt: Doubt): Promise<void> {
    this.#settled.clear();
    this.#troubles.clear();
    const wanted = distinctTypes(relations);
    if (wanted.size > 0) await this.#lookAt(client, wanted, doubt);
    await dropReplacedTypes(client);
    this.#tell();
  }

  async #lookAt(client: Client, wanted: ReadonlyMap<string, TypeDefinition>, doubt: Doubt): Promise<void> {
    await client.query("begin");
    let existing = await this.#make(client, wanted);
    if (this.may.alter && this.may.rename) {
      const replaced = await replaceTypes(client, wanted, existing);
      if (replaced.length > 0) {
        // In the same transaction: what is in their columns counts no more.
        await doubt(new Map(replaced.map((key) => [key, { isFollowed: false }])));
        existing = await readExistingTypes(client, [...wanted.values()]);
      }
    }
    await client.query("commit");
    const renamed = [...wanted].filter(([key, type]) => areLabelsRenamed(type, existing.get(key)));
    const isFollowed = (key: string) =>
      this.may.alter && this.may.rename && existing.get(key)?.isOurs === true;
    if (renamed.length > 0)
      await doubt(new Map(renamed.map(([key]) => [key, { isFollowed: isFollowed(key) }])));
    if (!this.may.alter) return;
    for (const [key, definition] of wanted) {
      const there = existing.get(key);
      if (!there) continue;
      for (const clause of alterations(definition, there, this.may.rename))
        await this.#alter(client, definition, clause);
    }
  }

  /** Makes what a relation needs and is not there yet. In the open transaction. */
  async make(client: Client, relation: Relation): Promise<void> {
    const wanted = distinctTypes([relation]);
    for (const key of wanted.keys()) if (this.#settled.has(key)) wanted.delete(key);
    if (wanted.size === 0) return;
    await this.#make(client, wanted);
    this.#tell();
  }

  /** What was made in a transaction that was undone is gone. */
  forget(): void {
    this.#settled.clear();
  }

  #tell(): void {
    if (this.#troubles.size > 0) this.warn([...this.#troubles.values()].join(" "));
    else if (this.#hasWarned) this.warn(null);
    this.#hasWarned = this.#troubles.size > 0;
  }

  async #make(
    client: Client,
    wanted: ReadonlyMap<string, TypeDefinition>,
  ): Promise<ReadonlyMap<string, ExistingType>> {
    const keys = [...wanted.values()];
    const existing = await readExistingTypes(client, keys);
    for (const [key, definition] of wanted) {
      if (!existing.has(key)) await this.#create(client, definition);
      this.#settled.add(key);
    }
    return existing;
  }

  async #create(client: Client, definition: TypeDefinition): Promise<void> {
    await client.query(`savepoint ${failed}`);
    try {
      await createSchemas(client, new Set([definition.schema]));
      await client.query(createTypeSql(definition));
      await client.query("insert into millrace.made_type values ($1, $2) on conflict do nothing", [
        definition.schema,
        definition.name,
      ]);
    } catch (error) {
      await client.query(`rollback to savepoint ${failed}`);
      this.#troubles.set(
        qualifiedName(definition),
        `Type ${qualifiedName(definition)} cannot be made at the sink, and its values are kept as text there: ` +
          `${describePostgresError(error, "sink").message} Run, before the tables are made: ${createTypeSql(definition)};`,
      );
    }
    await client.query(`release savepoint ${failed}`);
  }

  async #alter(client: Client, definition: TypeDefinition, clause: string): Promise<void> {
    const sql = `alter ${definition.kind === "domain" ? "domain" : "type"} ${sqlName(definition)} ${clause}`;
    try {
      await client.query(sql);
    } catch (error) {
      const { message } = describePostgresError(error, "sink");
      this.#troubles.set(
        qualifiedName(definition),
        `Type ${qualifiedName(definition)} at the sink is not as the source's is: ${message} Run: ${sql};`,
      );
    }
  }
}

/** Whether labels have come at the source, and others that are here are not there: some of them may be the same. */
function areLabelsRenamed(definition: TypeDefinition, existing: ExistingType | undefined): boolean {
  if (definition.kind !== "enum" || !existing?.labels) return false;
  const here = new Set(existing.labels);
  const there = new Set(definition.labels.map(({ name }) => name));
  return !there.isSubsetOf(here) && !here.isSubsetOf(there);
}

/** What makes a type take the source's values, behind ALTER TYPE or ALTER DOMAIN. Of types that others have made, labels alone. */
function alterations(
  definition: TypeDefinition,
  existing: ExistingType,
  mayRename: boolean,
): readonly string[] {
  switch (definition.kind) {
    case "enum":
      return enumChanges(definition.labels, existing.labels ?? [], existing.isOurs && mayRename).map(
        labelClause,
      );
    case "domain": {
      const gone = existing.checks.filter((name) => !definition.checks.some((check) => check.name === name));
      const drops = gone.map((name) => `drop constraint ${escapeIdentifier(name)}`);
      const isLoosened = existing.notNull && !definition.notNull;
      return existing.isOurs ? [...drops, ...(isLoosened ? ["drop not null"] : [])] : [];
    }
    case "composite": {
      const { attributes } = definition;
      if (!existing.isOurs || isMisfit(definition, existing)) return [];
      return attributes
        .slice(existing.attributes.length)
        .map(({ name, type }) => `add attribute ${escapeIdentifier(name)} ${useSql(type)}`);
    }
    case "range":
      return [];
    default:
      return definition satisfies never;
  }
}

function labelClause(change: EnumChange): string {
  if (change.kind === "rename") {
    return `rename value ${escapeLiteral(change.from)} to ${escapeLiteral(change.to)}`;
  }
  const place = change.before === null ? "" : ` before ${escapeLiteral(change.before)}`;
  return `add value if not exists ${escapeLiteral(change.label)}${place}`;
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
