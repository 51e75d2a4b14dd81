import { Progress } from "../../charts/progress.tsx";
import { Sparkline } from "../../charts/sparkline.tsx";
import { copyProgress } from "../../connector/copy-progress.ts";
import { sinkKind, sinkName, sourceName } from "../../connector/endpoints.ts";
import { lagOf } from "../../connector/lag.ts";
import { retryWords } from "../../connector/retry-words.ts";
import { lastRate } from "../../connector/sample-series.ts";
import { useConsole } from "../../console-context.ts";
import { Badge } from "../../parts/badge.tsx";
import { useNow } from "../../parts/clock.ts";
import { Link } from "../../route/link.tsx";
import { wholeWindow } from "../../store/samples.ts";
import { useStore } from "../../store/store.ts";
import { bytes, perSecond } from "../../text/numbers.ts";
import { duration } from "../../text/times.ts";
import type { ListedConnector } from "./connector-order.ts";
import { UnfoldingDetail } from "./unfolding-detail.tsx";

/** In characters. The connector's own page has the rest. */
const longestDetail = 500;

interface ConnectorRowProps extends ListedConnector {
  /** Several replicas share the connectors. */
  readonly showsReplica: boolean;
}

export function ConnectorRow({ entry, condition, showsReplica }: ConnectorRowProps) {
  const { connector, status } = entry;
  const detail = condition.detail?.slice(0, longestDetail);
  return (
    <article class="connector-row">
      <div class="who">
        <Link class="name" to={{ page: "connector", id: connector.id, tab: "overview" }}>
          {connector.id}
        </Link>
        {connector.name && <span class="name soft small"> {connector.name}</span>}
        <div class="route small soft">
          <span class="name">{sourceName(connector)}</span>
          <span aria-hidden="true"> → </span>
          <span class="only-spoken"> to </span>
          <span class="name">
            {sinkKind(connector)} {sinkName(connector)}
          </span>
          {showsReplica && status.replica && <span class="name"> · replica {status.replica}</span>}
        </div>
      </div>
      <div class="how">
        <div class="state row">
          <Badge tone={condition.tone}>{condition.word}</Badge>
          {status.status.retry && <RetryNote {...{ entry, condition }} />}
        </div>
        {detail && <UnfoldingDetail text={detail} />}
      </div>
      {status.state.snapshot ? (
        <CopyFigures {...{ entry, condition }} />
      ) : (
        <StreamFigures {...{ entry, condition }} />
      )}
    </article>
  );
}

function RetryNote({ entry: { status } }: ListedConnector) {
  return <span class="small soft">{retryWords(status, useNow())}</span>;
}

function useFigures(id: string) {
  const { samples } = useConsole();
  return useStore(samples.store, ({ byId }) => byId.get(id) ?? null);
}

function CopyFigures({ entry: { connector, status } }: ListedConnector) {
  const { done, all, note } = copyProgress(status);
  // Nothing streams yet, so no commit waits for a known time. What the slot keeps grows while the sink is away.
  const kept = lagOf(status, useFigures(connector.id)).bytes ?? 0;
  const notes = [note, kept > 0 ? `lag ${bytes(kept)}` : ""].filter(Boolean);
  return (
    <div class="figures copy">
      <Progress {...{ label: `Copy of ${connector.id}`, done, all, note: notes.join(" · ") }} />
    </div>
  );
}

function StreamFigures({ entry: { connector, status } }: ListedConnector) {
  const figures = useFigures(connector.id);
  const lag = lagOf(status, figures);
  if (!figures && lag.seconds === null) return <div class="figures" />;
  const rate = figures && lastRate(figures);
  return (
    <div class="figures">
      <div class="lag number">
        <span>{lag.seconds === null ? "–" : duration(lag.seconds)}</span>
        <span class="small soft">{lag.bytes === null ? "lag" : `lag, ${bytes(lag.bytes)}`}</span>
      </div>
      <div class="rate number">
        <span>{rate === null ? "–" : perSecond(rate)}</span>
        <span class="small soft">rows</span>
      </div>
      {figures && (
        <Sparkline label={`Rows a second of ${connector.id}, ten minutes`} values={wholeWindow(figures)} />
      )}
    </div>
  );
}
