import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Explanation } from "../../../../src/connector/explanation.ts";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { TextField } from "../../../parts/field.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { moments, stateTones } from "./explained.ts";

interface Question {
  readonly schema: string;
  readonly name: string;
  readonly key: string;
}

/** Asks what became of one row. */
export function RowsTab({ entry }: { readonly entry: GivenConnector }) {
  const { api } = useConsole();
  const { id, limits } = entry.connector;
  const [question, setQuestion] = useState<Question>({ schema: "public", name: "", key: '{"id":1}' });
  const [found, setFound] = useState<Explanation | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const change = (part: Partial<Question>) => setQuestion({ ...question, ...part });
  const ask = async () => {
    setBusy(true);
    try {
      setFound(await answer(api.connectors({ connector_id: id ?? "" }).explain.get({ query: question })));
      setError(null);
    } catch (failure) {
      setFound(null);
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="stack" aria-labelledby="rows-title">
      <div>
        <h2 id="rows-title">Find a row</h2>
        <p class="small soft">What became of its changes: delivered, tried again, parked, refused.</p>
      </div>
      {!limits?.receipts_hours && (
        <p class="small strong">
          This connector keeps no receipts. Set <code>limits.receipts_hours</code> to know what becomes of
          rows from then on.
        </p>
      )}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy) void ask();
        }}
      >
        <TextField label="Schema" value={question.schema} onValue={(schema) => change({ schema })} required />
        <TextField label="Table" value={question.name} onValue={(name) => change({ name })} required />
        <TextField
          label="Key"
          hint="As JSON, with values as the receiver sees them"
          value={question.key}
          onValue={(key) => change({ key })}
          required
        />
        <div>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Find
          </Button>
        </div>
      </form>
      {error !== null && <Failure title="The row cannot be looked up" error={error} />}
      {found && <Found found={found} />}
    </section>
  );
}

function Found({ found }: { readonly found: Explanation }) {
  const { state, summary, receipts, open } = found;
  return (
    <div class="stack" role="status">
      <p>
        <Badge tone={stateTones[state]}>{state}</Badge> {summary}
      </p>
      <ol class="tasks">
        {moments(found).map(({ at, tone, word, text, key }, index) => (
          <li class="task" key={`${key}${index}`}>
            <div class="task-head">
              <Badge tone={tone}>{word}</Badge>
              <h3>{text}</h3>
              <span class="small soft made">{at === null ? "now" : <TimeAgo at={at} />}</span>
            </div>
            {key !== null && <code class="small soft">{key}</code>}
          </li>
        ))}
      </ol>
      {open === null && receipts.hours > 0 && (
        <p class="small soft">
          What is on its way is not known here: the connector does not run, or on another replica.
        </p>
      )}
      {receipts.since !== null && (
        <p class="small soft">
          Receipts go back to <TimeAgo at={receipts.since} />.
        </p>
      )}
    </div>
  );
}
