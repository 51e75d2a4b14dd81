import { useEffect, useMemo, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { HistoryEntry } from "../../../../src/connector/status.ts";
import { answer } from "../../../api/client.ts";
import { componentWord, healthWords, phaseWords } from "../../../connector/status-words.ts";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { useLoaded } from "../../../store/use-loaded.ts";
import { plural } from "../../../text/numbers.ts";
import { exact } from "../../../text/times.ts";
import { attemptsText, type Run, runsOf, type Step, stepsOf } from "./runs.ts";

const pollMs = 15_000;
/** Characters that are shown in any case. */
const shortReason = 240;
/** Those that begin open. */
const openRuns = 2;

/** What happened, run by run. */
export function HistoryTab({ entry }: { readonly entry: GivenConnector }) {
  const { api } = useConsole();
  const { id } = entry.connector;
  const load = () => answer(api.connector.history({ connector_id: id }).get());
  const { data, error, reload } = useLoaded(load, [id], pollMs);
  const runs = useMemo(() => (data ? runsOf(data) : null), [data]);
  // Another status is another entry.
  const status = JSON.stringify([entry.run_id, entry.status.state, entry.status.status]);
  useEffect(reload, [status, reload]);
  if (!runs) {
    return error === null ? (
      <p class="soft">Loading…</p>
    ) : (
      <Failure title="The history cannot be shown" error={error} retry={reload} />
    );
  }
  return (
    <section class="stack" aria-labelledby="history-title">
      <div>
        <h2 id="history-title">History</h2>
        <p class="small soft">
          What each run reported, newest first. A run is one life of the connector, from Start to Stop.
        </p>
      </div>
      {runs.length === 0 && <p class="soft">Nothing has happened yet.</p>}
      {runs.map((run, index) => (
        <RunSection key={run.id} run={run} isOpen={index < openRuns} isPresent={run.id === entry.run_id} />
      ))}
    </section>
  );
}

interface RunSectionProps {
  readonly run: Run;
  readonly isOpen: boolean;
  readonly isPresent: boolean;
}

function RunSection({ run, isOpen, isPresent }: RunSectionProps) {
  return (
    <details class="run card" open={isOpen}>
      <summary>
        <h3>
          {isPresent ? "Latest run, since" : "Run from"} {exact(run.beganAt)}
        </h3>{" "}
        <Badge tone={run.tone}>{run.word}</Badge>{" "}
        <span class="small soft">{plural(run.entries.length, "entry", "entries")}</span>
      </summary>
      <ol class="timeline">
        {stepsOf(run.entries).map((step) =>
          step.kind === "entry" ? (
            <TimelineEntry key={step.entry.id} entry={step.entry} />
          ) : (
            // By the oldest: newer ones join.
            <Folded key={step.entries.at(-1)?.id} kind={step.kind} entries={step.entries} />
          ),
        )}
      </ol>
      <p class="small soft run-id">
        Run <code>{run.id}</code>
      </p>
    </details>
  );
}

function TimelineEntry({ entry: { status, component, created_at } }: { readonly entry: HistoryEntry }) {
  const { tone, word, reason } = healthWords(status);
  const phase = phaseWords(status.state);
  return (
    <li class={`tone-${tone}`}>
      <time class="small soft" dateTime={created_at}>
        {exact(Date.parse(created_at))}
      </time>
      <div>
        <p>
          <span class="name strong">{phase}</span>
          {word !== phase && <span class="word"> {word}</span>}
          <span class="small soft"> {componentWord(component)}</span>
        </p>
        {reason && <Reason text={reason} />}
      </div>
    </li>
  );
}

/** A reason may name many tables, and comes again with each change. */
function Reason({ text }: { readonly text: string }) {
  if (text.length <= shortReason) return <p class="reason small">{text}</p>;
  return (
    <details class="long-reason small">
      <summary>
        <span class="beginning">{text.slice(0, shortReason).replace(/\s\S*$/, "")} …</span>
      </summary>
      <p class="reason">{text}</p>
    </details>
  );
}

interface FoldedProps {
  readonly kind: Exclude<Step["kind"], "entry">;
  /** Newest first. */
  readonly entries: readonly HistoryEntry[];
}

/** Many entries as one: how many, and from when to when. Each is there to be unfolded. */
function Folded({ kind, entries }: FoldedProps) {
  const [newest, oldest] = [entries[0], entries.at(-1)];
  const [isOpen, setOpen] = useState(false);
  if (!newest || !oldest) return null;
  const { tone, reason } = healthWords(newest.status);
  return (
    <li class={`tone-${tone}`}>
      <time class="small soft" dateTime={oldest.created_at}>
        {exact(Date.parse(oldest.created_at))}
      </time>
      <div>
        <details onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>
            <span class="strong">{titleOf(kind, entries)}</span>
            <span class="small soft"> until {until(oldest, newest)}</span>
          </summary>
          {isOpen && (
            <ol class="small copies">
              {entries.map(({ id, status, created_at }) => (
                <li key={id}>
                  <span class="soft">{exact(Date.parse(created_at)).slice(11)}</span>{" "}
                  <span class="name">{status.state.snapshot?.name ?? phaseWords(status.state)}</span>
                  <span class="soft"> {healthWords(status).word}</span>
                </li>
              ))}
            </ol>
          )}
        </details>
        {reason && <Reason text={reason} />}
      </div>
    </li>
  );
}

function titleOf(kind: FoldedProps["kind"], entries: readonly HistoryEntry[]): string {
  if (kind === "retries")
    return `Retry, ${attemptsText(entries)}, for the same reason: ${plural(entries.length, "entry", "entries")}`;
  const tables = new Set(entries.map(({ status }) => status.state.snapshot?.name)).size;
  return `Copying ${plural(tables, "table")}`;
}

/** The time of day, with the day where it is another one. */
function until(oldest: HistoryEntry, newest: HistoryEntry): string {
  const [from, to] = [oldest, newest].map(({ created_at }) => exact(Date.parse(created_at))) as [
    string,
    string,
  ];
  return from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to;
}
