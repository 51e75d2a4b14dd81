// The steps, each with its own address.

import { Link } from "../../route/link.tsx";
import { type EditStep, editSteps, type Route } from "../../route/route.ts";
import { plural } from "../../text/numbers.ts";

export const stepTitles: Readonly<Record<EditStep, string>> = {
  source: "Source",
  sink: "Sink",
  tables: "Tables",
  review: "Review",
  json: "As JSON",
};

interface StepLinksProps {
  readonly step: EditStep;
  readonly routeOf: (step: EditStep) => Extract<Route, { page: "new" | "edit" }>;
  /** How much is wrong there. */
  readonly countOf: (step: EditStep) => number;
}

export function StepLinks({ step, routeOf, countOf }: StepLinksProps) {
  return (
    <nav class="steps" aria-label="Steps">
      <ol>
        {editSteps.map((each, at) => (
          <li key={each} class={each === "json" ? "aside" : ""}>
            <Link to={routeOf(each)} {...(each === step && { "aria-current": "step" as const })}>
              {each !== "json" && <span class="step-number">{at + 1}</span>}
              {stepTitles[each]}
              <Problems count={countOf(each)} />
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function Problems({ count }: { readonly count: number }) {
  if (count === 0) return null;
  return (
    <span class="step-problems">
      <span aria-hidden="true">{count}</span>
      <span class="only-spoken">, {plural(count, "problem")}</span>
    </span>
  );
}
