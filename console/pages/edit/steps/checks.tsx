// The tests of one side: each with its outcome, and what to paste where.

import { ApiProblem } from "../../../api/problem.ts";
import { Progress } from "../../../charts/progress.tsx";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Command, SqlCommands } from "../../../parts/command.tsx";
import { Failure, Notice } from "../../../parts/notice.tsx";
import { plural } from "../../../text/numbers.ts";
import { useForm } from "../form/form-context.ts";
import type { ShownCheck, ShownChecks } from "../model/checks.ts";
import { type SinkKind, sinkKindOf } from "../model/draft.ts";
import { valueAt } from "../model/pointer.ts";
import type { Side, StepData } from "./use-step-data.ts";

interface ChecksProps {
  readonly side: Side;
  readonly data: StepData;
  readonly refuse: (error: unknown) => void;
}

export function Checks({ side, data, refuse }: ChecksProps) {
  const { draft } = useForm();
  const { isRunning, data: checks, error, of } = data.checks[side];
  const isOld = checks !== null && of !== data.keyOf(side);
  const run = () => data.runChecks(side).catch(refuse);
  const isElsewhere = error instanceof ApiProblem && error.fields.length > 0;
  return (
    <section class="card stack" aria-busy={isRunning}>
      <div class="row apart">
        <div>
          <h3>Test the {side}</h3>
          <p class="small soft">{promises[side === "source" ? "source" : sinkKindOf(draft)]}</p>
        </div>
        <Button onClick={run} isBusy={isRunning}>
          {checks === null ? "Run the tests" : "Run them again"}
        </Button>
      </div>
      {isRunning && (
        <Progress label={`Tests of the ${side}`} done={0} all={0} note="This takes up to 10 seconds." />
      )}
      <div role="status">{checks !== null && !isRunning && <Outcome {...{ checks, side, isOld }} />}</div>
      {!isRunning && Boolean(error) && !isElsewhere && (
        <Failure title="The tests did not run" error={error} />
      )}
      {checks !== null && !isRunning && <Results {...{ checks: checks.checks, side }} />}
    </section>
  );
}

interface ResultsProps {
  readonly checks: readonly ShownCheck[];
  readonly side: Side;
}

/** What passed, or was not tried, is of interest to few. */
function Results({ checks, side }: ResultsProps) {
  const folded = checks.filter(({ tone }) => tone === "good" || tone === "idle");
  const passed = folded.filter(({ tone }) => tone === "good").length;
  const skipped = folded.length - passed;
  const list = (some: readonly ShownCheck[]) => (
    <ul class="checks">
      {some.map((check) => (
        <Check key={check.id} {...{ check, side }} />
      ))}
    </ul>
  );
  return (
    <>
      {folded.length < checks.length && list(checks.filter((check) => !folded.includes(check)))}
      {folded.length > 0 && (
        <details class="passed">
          <summary>
            {plural(passed, "test")} passed{skipped > 0 && `, ${skipped} skipped`}
          </summary>
          {list(folded)}
        </details>
      )}
    </>
  );
}

const promises: Readonly<Record<"source" | SinkKind, string>> = {
  source: "Reads settings and privileges. Nothing is changed.",
  postgres: "Reads settings and privileges. Nothing is changed.",
  webhook: "Sends one POST of [].",
  kafka: "Asks the brokers. No topic is made, and nothing is sent.",
};

interface OutcomeProps {
  readonly checks: ShownChecks;
  readonly side: Side;
  readonly isOld: boolean;
}

function Outcome({ checks: { failed, warned }, side, isOld }: OutcomeProps) {
  const tone = isOld ? "idle" : failed > 0 ? "bad" : warned > 0 ? "warning" : "good";
  const found = [failed > 0 ? plural(failed, "failure") : "", warned > 0 ? plural(warned, "warning") : ""];
  const text = found.filter(Boolean).join(" and ") || `The ${side} is ready`;
  return (
    <Notice tone={tone}>
      <p>
        <strong>{text}.</strong>{" "}
        {isOld
          ? "The form was changed since: run the tests again."
          : failed + warned > 0
            ? advice(failed)
            : ""}
      </p>
    </Notice>
  );
}

function advice(failed: number): string {
  return failed > 0
    ? "Mend what failed, then run the tests again."
    : "It works as it is; read what each warning says.";
}

function Check({ check, side }: { readonly check: ShownCheck; readonly side: Side }) {
  return (
    <li class="check-result">
      <Badge tone={check.tone}>{check.word}</Badge>
      <div class="stack tight">
        <p class="name check-title">{check.title}</p>
        {check.details.map((text) => (
          <p key={text} class="name small soft">
            {text}
          </p>
        ))}
        {check.commands.length > 0 && <Commands {...{ commands: check.commands, side }} />}
      </div>
    </li>
  );
}

function Commands({ commands, side }: { readonly commands: readonly string[]; readonly side: Side }) {
  const { draft } = useForm();
  const isKafka = side === "sink" && sinkKindOf(draft) === "kafka";
  if (isKafka)
    return (
      <>
        <p class="small">Run where Kafka's command-line tools are:</p>
        <Command text={commands.join("\n")} />
      </>
    );
  const at = `/${side}/postgres/connection`;
  const [database, host] = [valueAt(draft, `${at}/database`), valueAt(draft, `${at}/host`)];
  return (
    <>
      <p class="small">
        Run in the database <strong class="name">{String(database ?? "")}</strong> on{" "}
        <strong class="name">{String(host ?? "")}</strong>, as the tables' owner or a superuser:
      </p>
      <SqlCommands statements={commands} />
    </>
  );
}
