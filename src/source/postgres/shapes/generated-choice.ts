// Decides what becomes of each generated column: the sink computes it, the source sends it, or it is left out. Pure.

import { escapeIdentifier } from "pg";
import type { ComputedAnswer } from "../../../change/computed-columns.ts";
import { type GeneratedColumn, qualifiedName } from "../../../change/relation.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import type { GeneratedFacts } from "./generated-facts.ts";
import type { SelectedGenerated, SourceTable } from "./table-shapes.ts";

/** What the source can send of generated columns. */
export interface Sending {
  /** Null: there is no stream, so that each copy brings all of them. */
  readonly stream: {
    readonly version: number;
    /** The user's publication, which decides; null: the connector's own. */
    readonly publication: string | null;
    /** As `readPublishedGenerated` gives it. */
    readonly published: ReadonlySet<string>;
  } | null;
}

export type Choice =
  /** `isThere`: the sink had the column when it was asked. */
  | { readonly kind: "computed"; readonly column: GeneratedColumn; readonly isThere: boolean }
  | { readonly kind: "sent" }
  /** `reason` continues "left out: ". */
  | { readonly kind: "left out"; readonly reason: string };

/** From this version on the stream can bring stored generated columns. */
export const firstWithGenerated = 180_000;

/** A column that a sink may compute; or why none may. */
export function computable(
  table: SourceTable,
  { column, isInKey }: SelectedGenerated,
  facts: GeneratedFacts,
  selection: TableSelection,
  sending: Sending,
): GeneratedColumn | string {
  const { schema, name, columns } = table.relation;
  if (selection.hashedColumns(schema, name).includes(column.name)) return "it is hashed";
  const exposed = exposedBy(table, column.name, facts, selection);
  if (exposed !== null) return exposed;
  // The changes of its table name their rows by it.
  if (isInKey && unsent(table, column.name, facts, sending) === null) return "it is part of the key";
  if (facts.isBound) return "its expression depends on more than functions and columns";
  const all = [column, ...columns.filter(({ number }) => facts.uses.some((used) => used.number === number))];
  if (all.some(({ typeDefinitions }) => typeDefinitions))
    return "its expression uses a type of this database";
  const { expression, isVirtual, uses, reads, functions, locale } = facts;
  return { column, expression, isVirtual, uses, reads, functions, locale };
}

export function chooseGenerated(
  table: SourceTable,
  generated: SelectedGenerated,
  facts: GeneratedFacts,
  selection: TableSelection,
  sending: Sending,
  answer: ComputedAnswer,
): Choice {
  const asked = computable(table, generated, facts, selection, sending);
  if (answer.isComputed && typeof asked !== "string")
    return { kind: "computed", column: asked, isThere: answer.isThere };
  const { name } = generated.column;
  const exposed = exposedBy(table, name, facts, selection);
  if (exposed !== null) return { kind: "left out", reason: exposed };
  const reason = unsent(table, name, facts, sending);
  if (reason === null) return { kind: "sent" };
  const sink = typeof asked === "string" ? asked : answer.isComputed ? "" : answer.reason;
  return { kind: "left out", reason: `${reason}; the sink cannot compute it: ${sink}` };
}

/**
 * Whether values of a hashed or excluded column could be told from the generated one; null: no, as it is hashed itself,
 * or uses no such column.
 */
function exposedBy(
  { relation }: SourceTable,
  column: string,
  { uses }: GeneratedFacts,
  selection: TableSelection,
): string | null {
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  if (hashed.includes(column)) return null;
  const isOpen = (number: number) =>
    relation.columns.some((each) => each.number === number && !hashed.includes(each.name));
  return uses.every(({ number }) => isOpen(number))
    ? null
    : "it is computed from a column that is hashed or excluded";
}

/** Why the source does not send the column; null: it does. */
function unsent(
  { relation }: SourceTable,
  column: string,
  { isVirtual, number }: GeneratedFacts,
  { stream }: Sending,
): string | null {
  if (isVirtual) return "it is virtual, and Postgres does not publish such a column";
  if (stream === null) return null;
  const { version, publication, published } = stream;
  if (version < firstWithGenerated) return "Postgres publishes generated columns from version 18 on";
  if (publication === null || published.has(`${relation.id} ${number}`)) return null;
  return (
    `publication ${publication} does not publish it (${qualifiedName(relation)} may list ${column}, or run ` +
    `ALTER PUBLICATION ${escapeIdentifier(publication)} SET (publish_generated_columns = stored);)`
  );
}
