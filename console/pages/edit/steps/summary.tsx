import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import type { KnownTables } from "../catalog/selection.ts";
import { summaryOf } from "../model/summary.ts";

interface SummaryProps {
  readonly draft: JsonObject;
  readonly defaults: JsonObject | null;
  readonly known: KnownTables | null;
}

export function Summary({ draft, defaults, known }: SummaryProps) {
  return (
    <dl class="facts review">
      {summaryOf(draft, defaults, known).map(({ label, value }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd class="name">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
