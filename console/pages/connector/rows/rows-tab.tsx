import { useEffect, useRef, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Explanation } from "../../../../src/connector/explanation.ts";
import { answer } from "../../../api/client.ts";
import { ApiProblem } from "../../../api/problem.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { TextField } from "../../../parts/field.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { Link } from "../../../route/link.tsx";
import { moments, stateTones } from "./explained.ts";

interface Question {
  readonly schema: string;
  readonly table: string;
  readonly key: string;
}

/** Asks what became of one row. */
export function RowsTab({ entry }: { readonly entry: GivenConnector }) {
  const { api } = useConsole();
  const { id, limits } = entry.connector;
  const [question, setQuestion] = useState<Question>({ schema: "public", table: "", key: "" });
  const [found, setFound] = useState<Explanation | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const change = (part: Partial<Question>) => setQuestion((before) => ({ ...before, ...part }));
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
  const problems = problemsOf(error);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus();
  }, [error]);
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
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy) void ask();
        }}
      >
        <div class="two-fields">
          <TextField
            {...{ label: "Schema", name: "schema", required: true, error: problems?.schema ?? null }}
            value={question.schema}
            onValue={(schema) => change({ schema })}
          />
          <TextField
            {...{ label: "Table", name: "table", required: true, error: problems?.table ?? null }}
            value={question.table}
            onValue={(table) => change({ table })}
          />
        </div>
        <TextField
          {...{ label: "Key", name: "key", required: true, error: problems?.key ?? null }}
          hint={
            <>
              As JSON, with values as the receiver sees them: <code>{'{"id":7}'}</code>
            </>
          }
          value={question.key}
          onValue={(key) => change({ key })}
        />
        <div>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Find
          </Button>
        </div>
      </form>
      {error !== null && problems === null && <Failure title="The row cannot be looked up" error={error} />}
      {found && <Found {...{ id: id ?? "", found }} />}
    </section>
  );
}

/** What is wrong, at the fields; null: not all of it is about one of them. */
function problemsOf(error: unknown): Partial<Question> | null {
  if (!(error instanceof ApiProblem) || error.fields.length === 0) return null;
  const found: Partial<Record<keyof Question, string>> = {};
  for (const { path, message } of error.fields) {
    const [, field = "", ...rest] = path.split("/");
    if (field !== "schema" && field !== "table" && field !== "key") return null;
    const text = rest.length > 0 ? `${rest.join("/")}: ${message}` : message;
    found[field] = found[field] ? `${found[field]}; ${text}` : text;
  }
  return found;
}

function Found({ id, found }: { readonly id: string; readonly found: Explanation }) {
  const { schema, name, key, state, summary, receipts, open, parked } = found;
  const timeline = moments(found);
  return (
    <div class="stack" role="status">
      <p>
        <TableName schema={schema} name={name} /> <code>{JSON.stringify(key)}</code>
      </p>
      <p>
        <Badge tone={stateTones[state]}>{state}</Badge> {summary}
      </p>
      {parked.length > 0 && (
        <p>
          <Link to={{ page: "connector", id, tab: "parked" }}>See what is parked</Link>
        </p>
      )}
      {timeline.length > 0 && (
        <ol class="tasks">
          {timeline.map(({ at, tone, word, text, key: delivery }, index) => (
            <li class="task" key={`${delivery}${index}`}>
              <div class="task-head">
                <Badge tone={tone}>{word}</Badge>
                <h3>{text}</h3>
                <span class="small soft made">{at === null ? "now" : <TimeAgo at={at} />}</span>
              </div>
              {delivery !== null && <code class="small soft">{delivery}</code>}
            </li>
          ))}
        </ol>
      )}
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
