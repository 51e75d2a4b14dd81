import { useState } from "preact/hooks";
import type { Parked } from "../../../../src/connector/parked-message.ts";
import { answer } from "../../../api/client.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/command.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { useLoaded } from "../../../store/use-loaded.ts";
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
  const { schema, table, cause, rows, bytes: size, parked_at: at, state } = message;
  const [showsBody, setShowsBody] = useState(false);
  const keys = keyWords(message);
  return (
    <li class="task">
      <div class="task-head">
        <Badge tone={cause === "behind" ? "idle" : "warning"}>{causes[cause]}</Badge>
        <h3>
          <TableName schema={schema} name={table} /> <code>{keys}</code>
        </h3>
        <span class="small soft made">
          <TimeAgo at={at} />
        </span>
      </div>
      <p class="small soft">
        {plural(rows, "row")}, {bytes(size)}
        {state === "Asked" && <strong> · will be sent again</strong>} ·{" "}
        <code class="run-id">{message.id}</code>
      </p>
      <Attempts attempts={message.attempts} />
      {canAct && (
        <div class="row">
          <Button size="small" aria-label={`Send again: ${keys}`} onClick={() => ask("retry")}>
            Send again
          </Button>
          <Button size="small" aria-label={`Discard: ${keys}`} onClick={() => ask("discard")}>
            Discard
          </Button>
          <Button
            size="small"
            kind="plain"
            aria-label={`${showsBody ? "Hide" : "Show"} the body: ${keys}`}
            aria-expanded={showsBody}
            onClick={() => setShowsBody(!showsBody)}
          >
            {showsBody ? "Hide" : "Show"} the body
          </Button>
        </div>
      )}
      {showsBody && <Body id={id} message={message} />}
    </li>
  );
}

/** More are told by their number. */
const mostKeys = 3;

export function keyWords({ keys }: Pick<Parked, "keys">): string {
  const shown = keys.slice(0, mostKeys).map((key) => JSON.stringify(key));
  return shown.join(" ") + (keys.length > mostKeys ? ` and ${keys.length - mostKeys} more` : "");
}

function Attempts({ attempts }: Pick<Parked, "attempts">) {
  if (attempts.length === 0) return <p class="small soft">It was not tried.</p>;
  return (
    <ul class="stack tight small">
      {attempts.map(({ at, status, error, answer: said }) => (
        <li class="reason" key={at}>
          <TimeAgo at={at} />: <strong>{status === undefined ? error : `answered ${status}`}</strong>
          {said && (
            <>
              {" "}
              <code>{said}</code>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Longer ones are shown in part. */
const mostShown = 20_000;

/** What is sent. It comes once the reader asks for it: it may be large. */
function Body({ id, message }: Pick<ParkedItemProps, "id" | "message">) {
  const { api } = useConsole();
  const path = api.connectors({ connector_id: id }).parked({ parked_id: message.id });
  const load = async () => (await answer(path.get({ query: { body: "1" } }))).body ?? "";
  const { data, error, reload } = useLoaded(load, [id, message.id]);
  if (error !== null) return <Failure title="The body cannot be shown" error={error} retry={reload} />;
  if (data === null) return <p class="small soft">Loading…</p>;
  const isCut = data.length > mostShown;
  return <Command text={isCut ? `${data.slice(0, mostShown)}…` : data} what={isCut ? "beginning" : "body"} />;
}
