import { useRef } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { Progress } from "../../../charts/progress.tsx";
import { copyProgress, noEstimate, secondsLeft } from "../../../connector/copy-progress.ts";
import { type CopyPoint, copyRate, withCopyPoint } from "../../../connector/copy-rate.ts";
import { sourceName } from "../../../connector/endpoints.ts";
import { SqlCommands } from "../../../parts/command.tsx";
import { bytes, perSecond } from "../../../text/numbers.ts";
import { duration } from "../../../text/times.ts";

/** How far the copy is, and how long it will take at this speed. */
export function CopySection({ entry: { connector, status } }: { readonly entry: GivenConnector }) {
  const points = useRef<readonly CopyPoint[]>([]);
  const seen = useRef<unknown>(null);
  const snapshot = status.progress?.snapshot;
  if (snapshot && seen.current !== status) {
    seen.current = status;
    points.current = withCopyPoint(points.current, { atMs: Date.now(), rows: snapshot.rows });
  }
  const rate = copyRate(points.current);
  const { done, all, isInRows, note } = copyProgress(status);
  const left = isInRows ? secondsLeft(done, all, rate) : null;
  const missing = noEstimate(status);
  const facts = [
    snapshot && snapshot.bytes > 0 ? `${bytes(snapshot.bytes)} copied` : "",
    rate === null ? "" : perSecond(rate),
  ].filter(Boolean);
  return (
    <section class="card stack tight" aria-labelledby="copy-title">
      <div class="row apart">
        <h2 id="copy-title">Copy</h2>
        <span class="strong">{left === null ? "" : `about ${duration(left)} left`}</span>
      </div>
      <Progress {...{ label: `Copy of ${connector.id}`, done, all, note }} />
      {facts.length > 0 && <p class="small soft">{facts.join(" · ")}</p>}
      {missing && (
        <>
          <p class="small soft">{missing.reason}</p>
          {missing.commands.length > 0 && (
            <details>
              <summary class="small">
                So that the next copy has one, run in <span class="name">{sourceName(connector)}</span>
              </summary>
              <SqlCommands statements={missing.commands} />
            </details>
          )}
        </>
      )}
    </section>
  );
}
