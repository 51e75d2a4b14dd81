import { useState } from "preact/hooks";
import type { Parked } from "../../../../src/connector/parked-message.ts";
import { answer } from "../../../api/client.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { bytes, plural } from "../../../text/numbers.ts";

interface ParkedItemProps {
  /** Of the connector. */
  readonly id: string;
  readonly message: Parked;
  readonly canAct: boolean;
  readonly ask: (what: "retry" | "discard") => void;
}

const causes: Readonly<Record<Parked["cause"], string>> = {
  refused: "refused",
  exhausted: "not delivered in time",
  behind: "waits behind another",
};

export function ParkedItem({ id, message, canAct, ask }: ParkedItemProps) {
  const { schema, table, cause, keys, rows, bytes: size, attempts, parked_at: at, state } = message;
  const keyText = keys.map((key) => JSON.stringify(key)).join(" ");
  return (
    <li class="task">
      <div class="task-head">
        <Badge tone={cause === "behind" ? "idle" : "warning"}>{causes[cause]}</Badge>
        <h3>
          <TableName schema={schema} name={table} /> <code>{keyText}</code>
        </h3>
        <span class="small soft made">
          <TimeAgo at={at} />
        </span>
      </div>
      <div class="row small soft">
        <span>
          {plural(rows, "row")}, {bytes(size)}
        </span>
        {state === "Asked" && <span>will be sent again</span>}
        <code>{message.id}</code>
      </div>
      {attempts.map((attempt) => (
        <p class="small" key={attempt.at}>
          <TimeAgo at={attempt.at} />: <strong>{attempt.status ?? attempt.error}</strong> {attempt.answer}
        </p>
      ))}
      <div class="row">
        {canAct && (
          <>
            <Button size="small" aria-label={`Send ${keyText} again`} onClick={() => ask("retry")}>
              Send again
            </Button>
            <Button size="small" aria-label={`Discard ${keyText}`} onClick={() => ask("discard")}>
              Discard
            </Button>
            <Body id={id} message={message} />
          </>
        )}
      </div>
    </li>
  );
}

/** Longer ones are shown in part. */
const mostShown = 20_000;

/** What is sent, once the reader asks for it: it may be large. */
function Body({ id, message }: Pick<ParkedItemProps, "id" | "message">) {
  const { api } = useConsole();
  const [body, setBody] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = async () => {
    setError(null);
    try {
      const path = api.connectors({ connector_id: id }).parked({ parked_id: message.id });
      setBody((await answer(path.get({ query: { body: "1" } }))).body ?? "");
    } catch (failure) {
      setError(failure);
    }
  };
  if (error !== null) return <Failure title="The body cannot be shown" error={error} retry={load} />;
  if (body === null)
    return (
      <Button size="small" kind="plain" onClick={load}>
        Show the body
      </Button>
    );
  return (
    <div class="command">
      <pre>{body.length > mostShown ? `${body.slice(0, mostShown)}…` : body}</pre>
    </div>
  );
}
