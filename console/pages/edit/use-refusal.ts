// Shows what the API refused: at the fields that it names, with the focus in the first.

import { useEffect, useState } from "preact/hooks";
import { ApiProblem, type FieldProblem } from "../../api/problem.ts";
import type { EditStep } from "../../route/route.ts";
import { allFields, stepOf } from "./fields/all-fields.ts";
import type { Form } from "./form/form-context.ts";
import type { FormState } from "./form/use-form.ts";
import { placeProblems } from "./model/problems.ts";

interface RefusalOptions extends FormState {
  readonly form: Form;
  readonly step: EditStep;
  readonly go: (to: EditStep) => void;
}

export interface Refusal {
  /** Violations that are not from saving. */
  readonly show: (found: readonly FieldProblem[]) => void;
  readonly refuse: (error: unknown) => void;
  readonly clear: () => void;
  /** What was refused, where nothing says which field. */
  readonly failure: unknown;
  readonly isFocusing: boolean;
  readonly countOf: (step: EditStep) => number;
}

/** Stands for what has no field. */
const top = "problems";

export function useRefusal({ form, problems, setProblems, step, go }: RefusalOptions): Refusal {
  const [failure, setFailure] = useState<unknown>(null);
  const [focused, setFocused] = useState<string | null>(null);
  useEffect(() => {
    if (focused === null) return;
    const element = focused === top ? document.getElementById(top) : document.getElementsByName(focused)[0];
    // It may be in a step, or a group, that is not drawn yet.
    if (!element) return;
    element.focus();
    element.scrollIntoView({ block: "center" });
    setFocused(null);
  });
  const show = (found: readonly FieldProblem[], error: unknown = null) => {
    const fields = allFields(form.draft, form.defaults).map(({ path }) => path);
    const { byField, others } = placeProblems(found, fields);
    const first = fields.find((path) => byField.has(path));
    setProblems(found);
    setFailure(found.length === 0 ? error : null);
    setFocused(others.length > 0 ? top : (first ?? top));
    const target = first === undefined || others.length > 0 ? null : stepOf(first, form.draft);
    if (target !== null && target !== step) go(target);
  };
  return {
    show,
    refuse: (error) => show(error instanceof ApiProblem ? error.fields : [], error),
    clear: () => {
      setProblems([]);
      setFailure(null);
    },
    failure,
    isFocusing: focused !== null,
    countOf: (one) => [...problems.byField.keys()].filter((path) => stepOf(path, form.draft) === one).length,
  };
}
