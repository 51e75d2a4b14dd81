import { groupsOf } from "../fields/all-fields.ts";
import { useForm } from "../form/form-context.ts";
import { Groups } from "../form/groups.tsx";
import { blankSinks, type SinkKind, sinkKindOf, sinkKinds } from "../model/draft.ts";
import { Checks } from "./checks.tsx";
import { StepFooter, type StepProps } from "./step-footer.tsx";
import type { StepData } from "./use-step-data.ts";

const promises: Readonly<Record<SinkKind, string>> = {
  postgres: "Tables that equal the source's, exactly once",
  webhook: "A POST for each batch of rows",
  kafka: "A topic for each table, exactly once",
};

export function SinkStep({ go, next, refuse, data }: StepProps & { readonly data: StepData }) {
  const form = useForm();
  const kind = sinkKindOf(form.draft);
  return (
    <>
      <KindChoice />
      <Groups key={kind} groups={groupsOf("sink", form.draft)} />
      <Checks key={`tests of ${kind}`} side="sink" {...{ data, refuse }} />
      <StepFooter
        next={{ label: "Next: the tables", go: () => next("sink", "tables") }}
        back={{ label: "Back", go: () => go("source") }}
      />
    </>
  );
}

function KindChoice() {
  const form = useForm();
  const kind = sinkKindOf(form.draft);
  return (
    <fieldset class="kinds" disabled={!form.isNew}>
      <legend>{form.isNew ? "Where do changes go?" : "The kind of sink cannot change"}</legend>
      {(Object.keys(sinkKinds) as SinkKind[]).map((each) => (
        <label key={each} class="kind">
          <input
            type="radio"
            name="/sink"
            checked={kind === each}
            onChange={() => form.setKind("/sink", each, blankSinks[each])}
          />
          <span>
            <strong>{sinkKinds[each]}</strong>
            <span class="small soft">{promises[each]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
