// Which fields each step has. Pure.

import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import type { EditStep } from "../../../route/route.ts";
import { sinkKindOf } from "../model/draft.ts";
import { check, type FieldSpec, type GroupSpec, isShown, secret, text } from "./field-spec.ts";
import { kafkaGroups } from "./kafka-fields.ts";
import { postgresSinkGroups } from "./postgres-sink-fields.ts";
import { sourceGroups } from "./source-fields.ts";
import { webhookGroups } from "./webhook-fields.ts";

const sinkGroups = { postgres: postgresSinkGroups, webhook: webhookGroups, kafka: kafkaGroups };

export const saltField = secret("/source/postgres/catalog/column_hashing/salt", "Salt", {
  hint: "Put before each value that is hashed. Whoever knows it can guess values: keep it secret.",
});

const tablesGroup: GroupSpec = { title: "Tables", isMain: true, fields: [saltField] };
export const nameFields: readonly FieldSpec[] = [
  text("/id", "Id", { isFixed: true, hint: "Up to 30 letters, digits, - and _. It cannot change later." }),
  text("/name", "Name for people", { hint: "May be left out." }),
  check("/disabled", "Disabled: stored, and not run"),
];
const reviewGroup: GroupSpec = { title: "Connector", isMain: true, fields: nameFields };

export function groupsOf(step: EditStep, draft: JsonObject): readonly GroupSpec[] {
  switch (step) {
    case "source":
      return sourceGroups;
    case "sink":
      return sinkGroups[sinkKindOf(draft)];
    case "tables":
      return [tablesGroup];
    case "review":
      return [reviewGroup];
    case "json":
      return [];
  }
}

/** Those that have fields. */
export const formSteps = ["source", "sink", "tables", "review"] as const satisfies readonly EditStep[];

export function fieldsOf(
  step: EditStep,
  draft: JsonObject,
  defaults: JsonObject | null,
): readonly FieldSpec[] {
  return groupsOf(step, draft)
    .flatMap(({ fields }) => fields)
    .filter((field) => isShown(field, draft, defaults));
}

/** The step whose field bears the name; null: none does. */
export function stepOf(path: string, draft: JsonObject): EditStep | null {
  const hasIt = (step: EditStep) =>
    groupsOf(step, draft).some(({ fields }) => fields.some((field) => field.path === path));
  return formSteps.find(hasIt) ?? null;
}

/** Every field that is shown, in the order of the steps. */
export function allFields(draft: JsonObject, defaults: JsonObject | null): readonly FieldSpec[] {
  return formSteps.flatMap((step) => fieldsOf(step, draft, defaults));
}

/** Also those that are not shown now. */
export function everyField(draft: JsonObject): readonly FieldSpec[] {
  return formSteps.flatMap((step) => groupsOf(step, draft).flatMap(({ fields }) => fields));
}
