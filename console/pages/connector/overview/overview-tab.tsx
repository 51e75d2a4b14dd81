import type { KnownConnector } from "../../../connector/known-connector.ts";
import { streams } from "../../../connector/replication.ts";
import { lastRate } from "../../../connector/sample-series.ts";
import { useNow } from "../../../parts/clock.ts";
import { Failure } from "../../../parts/notice.tsx";
import { useSeveralReplicas } from "../../../store/use-several-replicas.ts";
import { Charts } from "./charts.tsx";
import { CopySection } from "./copy-section.tsx";
import { furtherFacts, mainFacts } from "./facts.ts";
import { FactsList } from "./facts-list.tsx";
import { SetAsideSection } from "./set-aside-section.tsx";
import { SituationNotice } from "./situation-notice.tsx";
import { useSamples } from "./use-samples.ts";

/** What is wrong and what mends it; then the figures. */
export function OverviewTab({ entry }: { readonly entry: KnownConnector }) {
  const { id } = entry.connector;
  const samples = useSamples(id);
  const now = useNow();
  const severalReplicas = useSeveralReplicas();
  const main = mainFacts(entry, samples.data ? lastRate(samples.data) : null);
  return (
    <>
      <SituationNotice entry={entry} />
      <SetAsideSection entry={entry} />
      {entry.status.state.snapshot && <CopySection entry={entry} />}
      <section class="card stack" aria-labelledby="figures-title">
        <h2 class="only-spoken" id="figures-title">
          Figures
        </h2>
        {main.length > 0 && <FactsList facts={main} />}
        <FactsList facts={furtherFacts(entry, now, severalReplicas)} isSmall />
      </section>
      {samples.data && streams(entry.connector) && <Charts id={id} series={samples.data} />}
      {samples.error !== null && samples.data === null && (
        <Failure title="What was measured is not known" error={samples.error} retry={samples.reload} />
      )}
    </>
  );
}
