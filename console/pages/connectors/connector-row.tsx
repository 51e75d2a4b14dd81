import { Progress } from "../../charts/progress.tsx";
import { Sparkline } from "../../charts/sparkline.tsx";
import { copyProgress } from "../../connector/copy-progress.ts";
import { sinkKind, sinkName, sourceName } from "../../connector/endpoints.ts";
import { lastOf, lastRate } from "../../connector/sample-series.ts";
import { useConsole } from "../../console-context.ts";
import { Badge } from "../../parts/badge.tsx";
import { Link } from "../../route/link.tsx";
import { wholeWindow } from "../../store/samples.ts";
import { useStore } from "../../store/store.ts";
import { bytes, perSecond } from "../../text/numbers.ts";
import { duration } from "../../text/times.ts";
import type { ListedConnector } from "./connector-order.ts";

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
        <Badge tone={condition.tone}>{condition.word}</Badge>
        {detail && (
          <p class="small soft detail" title={detail}>
            {detail}
          </p>
        )}
      </div>
      {status.state.snapshot ? (
        <CopyFigures {...{ entry, condition }} />
      ) : (
        <StreamFigures id={connector.id} />
      )}
    </article>
  );
}

function CopyFigures({ entry: { connector, status } }: ListedConnector) {
  const { done, all, note } = copyProgress(status);
  return (
    <div class="figures copy">
      <Progress {...{ label: `Copy of ${connector.id}`, done, all, note }} />
    </div>
  );
}

function StreamFigures({ id }: { readonly id: string }) {
  const { samples } = useConsole();
  const figures = useStore(samples.store, ({ byId }) => byId.get(id) ?? null);
  if (!figures) return <div class="figures" />;
  const [rate, lagSeconds, lagBytes] = [
    lastRate(figures),
    lastOf(figures.lag_seconds),
    lastOf(figures.lag_bytes),
  ];
  return (
    <div class="figures">
      <div class="lag number">
        <span>{lagSeconds === null ? "–" : duration(lagSeconds)}</span>
        <span class="small soft">
          {lagSeconds === null || lagBytes === null ? "lag" : `lag, ${bytes(lagBytes)}`}
        </span>
      </div>
      <div class="rate number">
        <span>{rate === null ? "–" : perSecond(rate)}</span>
        <span class="small soft">rows</span>
      </div>
      <Sparkline label={`Rows a second of ${id}, ten minutes`} values={wholeWindow(figures)} />
    </div>
  );
}
