// What was refused, and has no field.

import type { FieldProblem } from "../../api/problem.ts";
import { Failure, Notice } from "../../parts/notice.tsx";

interface OtherProblemsProps {
  /** Null: what was refused is said below. */
  readonly failure: unknown;
  readonly others: readonly FieldProblem[];
}

export function OtherProblems({ failure, others }: OtherProblemsProps) {
  if (failure === null && others.length === 0) return null;
  return (
    <div id="problems" tabIndex={-1}>
      {failure !== null && others.length === 0 ? (
        <Failure title="That did not work" error={failure} />
      ) : (
        <Notice tone="bad" title="This has no field here: see “As JSON”" role="alert">
          <ul class="stack tight">
            {others.map(({ path, message }) => (
              <li key={path + message}>
                <code>{path}</code> {message}
              </li>
            ))}
          </ul>
        </Notice>
      )}
    </div>
  );
}
