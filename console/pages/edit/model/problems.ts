// Which field each violation that the API names belongs to. Pure.

import type { FieldProblem } from "../../../api/problem.ts";
import { isWithin } from "./pointer.ts";

export interface Placed {
  /** By the field's pointer. */
  readonly byField: ReadonlyMap<string, string>;
  /** No field shows their place. */
  readonly others: readonly FieldProblem[];
}

/**
 * A violation lands at the field of its place, or the nearest one around it: an item of a list at the list.
 *
 * @param fields pointers of the fields that are shown
 */
export function placeProblems(problems: readonly FieldProblem[], fields: readonly string[]): Placed {
  const byField = new Map<string, string>();
  const others: FieldProblem[] = [];
  for (const problem of problems) {
    const field = nearest(problem.path, fields);
    if (field === null) others.push(problem);
    else byField.set(field, joined(byField.get(field), sentence(problem, field)));
  }
  return { byField, others };
}

/** What remains when something at `pointer` was changed. */
export function withoutProblemsAt(
  problems: readonly FieldProblem[],
  pointer: string,
): readonly FieldProblem[] {
  const rest = problems.filter(({ path }) => !isWithin(path, pointer) && !isWithin(pointer, path));
  return rest.length === problems.length ? problems : rest;
}

function nearest(path: string, fields: readonly string[]): string | null {
  const around = fields.filter((field) => isWithin(path, field));
  return around.reduce<string | null>(
    (best, field) => (field.length > (best?.length ?? -1) ? field : best),
    null,
  );
}

/** An item's number counts from one for people. */
function sentence({ path, message }: FieldProblem, field: string): string {
  const [, index] = /^\/(\d+)(?:\/|$)/.exec(path.slice(field.length)) ?? [];
  if (index !== undefined) return `${Number(index) + 1}: ${message}`;
  return message.charAt(0).toUpperCase() + message.slice(1);
}

function joined(first: string | undefined, second: string): string {
  return first === undefined || first === second ? second : `${first}; ${second}`;
}
