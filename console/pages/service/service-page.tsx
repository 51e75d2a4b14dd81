import type { ComponentChildren } from "preact";
import { answer } from "../../api/client.ts";
import { useConsole } from "../../console-context.ts";
import { Failure } from "../../parts/notice.tsx";
import { TimeAgo } from "../../parts/time-ago.tsx";
import { useTitle } from "../../route/use-title.ts";
import { useLoaded } from "../../store/use-loaded.ts";
import { bytes } from "../../text/numbers.ts";
import { ReplicaTable } from "./replica-table.tsx";
import { SettingTable } from "./setting-table.tsx";
import { ThreadTable } from "./thread-table.tsx";

const everyMs = 5_000;

/** The service itself: what runs where, and with which settings. */
export function ServicePage() {
  useTitle("Service");
  const { api } = useConsole();
  const service = useLoaded(() => answer(api.service.get()), [api], everyMs);
  const replicas = useLoaded(() => answer(api.replicas.get()), [api], everyMs);
  const { data, error } = service;
  return (
    <>
      <h1>Service</h1>
      {error !== null && !data && (
        <Failure title="The service's facts could not be read" error={error} retry={service.reload} />
      )}
      {data && (
        <>
          <dl class="card facts">
            <Fact term="Version">{data.version}</Fact>
            <Fact term="Started">
              <TimeAgo at={data.started_at} />
            </Fact>
            <Fact term="State">{data.state.kind === "Embedded" ? "Embedded (PGlite)" : "Postgres"}</Fact>
            <Fact term="Memory">{bytes(data.memory.resident_bytes)}</Fact>
          </dl>
          {replicas.data && <ReplicaTable {...replicas.data} />}
          <ThreadTable threads={data.threads} />
          <SettingTable settings={data.settings} />
        </>
      )}
      <section class="stack tight" aria-labelledby="more">
        <h2 id="more">More</h2>
        <ul class="stack tight">
          <More href="/docs" name="Documentation">
            Of this version.
          </More>
          <More href="/swagger" name="API">
            Every endpoint, to read and to try.
          </More>
          <More href="/swagger/json" name="OpenAPI document">
            For generators of clients.
          </More>
          <More href="/metrics" name="Metrics">
            In Prometheus' text format.
          </More>
        </ul>
      </section>
    </>
  );
}

function Fact({ term, children }: { readonly term: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface MoreProps {
  readonly href: string;
  readonly name: string;
  readonly children: string;
}

function More({ href, name, children }: MoreProps) {
  return (
    <li>
      <a href={href}>{name}</a> <span class="soft">{children}</span>
    </li>
  );
}
