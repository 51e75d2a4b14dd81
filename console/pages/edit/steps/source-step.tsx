import { sourceGroups } from "../fields/source-fields.ts";
import { Groups } from "../form/groups.tsx";
import { Checks } from "./checks.tsx";
import { StepFooter, type StepProps } from "./step-footer.tsx";
import type { StepData } from "./use-step-data.ts";

export function SourceStep({ next, refuse, data }: StepProps & { readonly data: StepData }) {
  return (
    <>
      <Groups groups={sourceGroups} />
      <Checks side="source" {...{ data, refuse }} />
      <StepFooter next={{ label: "Next: the sink", go: () => next("source", "sink") }} />
    </>
  );
}
