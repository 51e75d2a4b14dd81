import { useEffect, useRef, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Diagnosis } from "../../../../src/connector/service/diagnosis.ts";
import { answer } from "../../../api/client.ts";
import { sinkKind } from "../../../connector/endpoints.ts";
import { Reason } from "../../../connector/reason.tsx";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/command.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { commandsText, severityWords, summaryOf, worstFirst } from "./findings.ts";

/** Looks for what is wrong when told to: it asks source and sink. */
export function DoctorTab({ entry }: { readonly entry: GivenConnector }) {
  const { connector } = entry;
  const { examination, isRunning, examine } = useExamination(connector.id);
  return (
    <section class="stack" aria-labelledby="doctor-title">
      <div class="row apart">
        <div>
          <h2 id="doctor-title">Doctor</h2>
          <p class="small soft">
            Looks at status, source, slot, clock, sink and the service, and changes nothing.
            {sinkKind(connector) === "Webhook" && " The receiver gets one POST of an empty list."}
          </p>
        </div>
        <Button kind={examination ? "normal" : "primary"} isBusy={isRunning} onClick={examine}>
          {isRunning ? "Looking…" : examination ? "Look again" : "Look now"}
        </Button>
      </div>
      <p role="status" class="soft">
        {isRunning && "Looking: this takes some seconds."}
        {!isRunning && examination?.findings && summaryOf(examination.findings)}
      </p>
      {examination?.error !== undefined && (
        <Failure title="The doctor could not look" error={examination.error} />
      )}
      {examination?.findings && (
        <>
          <ul class={`findings ${isRunning ? "stale" : ""}`}>
            {worstFirst(examination.findings).map((finding) => (
              <Finding
                key={JSON.stringify([finding.connector, finding.about, finding.finding])}
                finding={finding}
              />
            ))}
          </ul>
          <p class="small soft">
            As of <TimeAgo at={examination.at} />
          </p>
        </>
      )}
    </section>
  );
}

interface Examination {
  readonly at: string;
  readonly findings?: readonly Diagnosis[];
  readonly error?: unknown;
}

function useExamination(id: string) {
  const { api } = useConsole();
  const [examination, setExamination] = useState<Examination | null>(null);
  const [isRunning, setRunning] = useState(false);
  const ended = useRef(new AbortController());
  useEffect(() => () => ended.current.abort(), []);
  const examine = async () => {
    setRunning(true);
    const { signal } = ended.current;
    const at = () => new Date().toISOString();
    try {
      const findings = await answer(api.doctor.get({ query: { connector_id: id }, fetch: { signal } }));
      if (!signal.aborted) setExamination({ at: at(), findings });
    } catch (error) {
      if (!signal.aborted) setExamination({ at: at(), error });
    }
    if (!signal.aborted) setRunning(false);
  };
  return { examination, isRunning, examine };
}

function Finding({
  finding: { about, severity, finding, commands, connector },
}: {
  readonly finding: Diagnosis;
}) {
  const [tone, word] = severityWords[severity];
  return (
    <li class={`finding ${severity}`}>
      <div class="row">
        <Badge tone={tone}>{word}</Badge>
        <h3>{about}</h3>
        {connector === null && <span class="small soft">of the service</span>}
      </div>
      <div class="stack tight">
        <Reason text={finding} />
        {commands.length > 0 && <Command text={commandsText(commands)} what="commands" />}
      </div>
    </li>
  );
}
