// The form of a connector: its steps, and where each violation that the API names is shown.

import { useRef } from "preact/hooks";
import { useConsole } from "../../console-context.ts";
import { Notice } from "../../parts/notice.tsx";
import { Link } from "../../route/link.tsx";
import { navigate } from "../../route/location.ts";
import { addressOf, type EditStep } from "../../route/route.ts";
import { useStore } from "../../store/store.ts";
import { stepOf } from "./fields/all-fields.ts";
import { type Form, FormProvider } from "./form/form-context.ts";
import { type Beginning, useFormState } from "./form/use-form.ts";
import { LeaveGuard } from "./leave-guard.tsx";
import { isSame } from "./model/patch.ts";
import { OtherProblems } from "./other-problems.tsx";
import { StepLinks, stepTitles } from "./step-links.tsx";
import { JsonStep } from "./steps/json-step.tsx";
import { ReviewStep } from "./steps/review-step.tsx";
import { takenText } from "./steps/save-connector.ts";
import { SinkStep } from "./steps/sink-step.tsx";
import { SourceStep } from "./steps/source-step.tsx";
import type { StepProps } from "./steps/step-footer.tsx";
import { TablesStep } from "./steps/tables-step.tsx";
import { useStepData } from "./steps/use-step-data.ts";
import { violationsOf } from "./steps/violations.ts";
import { useRefusal } from "./use-refusal.ts";
import { useStepFocus } from "./use-step-focus.ts";

interface EditFormProps {
  readonly beginning: Beginning;
  readonly step: EditStep;
}

export function EditForm({ beginning, step }: EditFormProps) {
  const { api } = useConsole();
  const state = useFormState(api, beginning);
  const form = useTakenId(state.form);
  const data = useStepData(api, form);
  const isSaved = useRef(false);
  const { isNew, secretsOf: other } = form;
  const untouched = isNew ? beginning.draft : (form.stored ?? {});
  const routeOf = (to: EditStep) =>
    isNew || other === null
      ? ({ page: "new", from: other, step: to } as const)
      : ({ page: "edit", id: other, step: to } as const);
  const go = (to: EditStep) => navigate(addressOf(routeOf(to)));
  const refusal = useRefusal({ ...state, form, step, go });
  const heading = useStepFocus(step, refusal.isFocusing);
  const next: StepProps["next"] = async (from, to) => {
    const found = await violationsOf(api, from === "sink" ? "sink" : "source", form.draft, other);
    const own = found.filter(({ path }) => stepOf(path, form.draft) === null || isBefore(path, from, form));
    if (own.length > 0) return refusal.show(own);
    refusal.clear();
    go(to);
  };
  const saved = (id: string) => {
    isSaved.current = true;
    navigate(addressOf({ page: "connector", id, tab: "overview" }));
  };
  const props = { go, next, refuse: refusal.refuse, data };
  return (
    <FormProvider value={form}>
      <LeaveGuard isDirty={() => !isSaved.current && !isSame(form.draft, untouched)} />
      <div>
        <h1 class="name">{isNew ? "New connector" : `Edit ${other}`}</h1>
        {isNew && other !== null && <p class="soft name">Begun as a copy of {other}, with its secrets</p>}
      </div>
      <StepLinks {...{ step, routeOf, countOf: refusal.countOf }} />
      <div class="stack edit-step">
        <h2 tabIndex={-1} ref={heading}>
          {stepTitles[step]}
        </h2>
        <OtherProblems failure={refusal.failure} others={state.problems.others} />
        {!isNew && (step === "source" || step === "sink") && <FixedNotice id={other ?? ""} />}
        <Step {...{ step, props, saved }} />
      </div>
    </FormProvider>
  );
}

interface StepChoice {
  readonly step: EditStep;
  readonly props: StepProps & { readonly data: ReturnType<typeof useStepData> };
  readonly saved: (id: string) => void;
}

function Step({ step, props, saved }: StepChoice) {
  switch (step) {
    case "source":
      return <SourceStep {...props} />;
    case "sink":
      return <SinkStep {...props} />;
    case "tables":
      return <TablesStep {...props} />;
    case "review":
      return <ReviewStep {...{ ...props, saved }} />;
    case "json":
      return <JsonStep />;
  }
}

/** The step does not wait for what a later one is about. */
function isBefore(path: string, from: "source" | "sink" | "tables", { draft }: Form): boolean {
  const of = stepOf(path, draft);
  return from === "tables" ? of === "source" || of === "tables" : of === from;
}

/** The service would replace a connector that has the id. */
function useTakenId(form: Form): Form {
  const { live } = useConsole();
  const isTaken = useStore(
    live.connectors,
    (all) => form.isNew && (all?.has(String(form.draft.id)) ?? false),
  );
  if (!isTaken) return form;
  return { ...form, problemAt: (path) => form.problemAt(path) ?? (path === "/id" ? takenText : null) };
}

function FixedNotice({ id }: { readonly id: string }) {
  return (
    <Notice tone="idle">
      <p>
        Where data comes from and goes to cannot change: what was carried so far would mean nothing.{" "}
        <Link to={{ page: "new", from: id }}>Clone this connector</Link> to begin anew elsewhere.
      </p>
    </Notice>
  );
}
