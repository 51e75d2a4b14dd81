import { useMemo } from "preact/hooks";
import type { Tone } from "../../connector/condition.ts";
import { useConsole } from "../../console-context.ts";
import { Button } from "../../parts/button.tsx";
import { FilterButton, SearchField } from "../../parts/filter.tsx";
import { Failure, ReadOnlyNote } from "../../parts/notice.tsx";
import { useSteadyRows } from "../../parts/steady-rows.ts";
import { useMedia } from "../../parts/use-media.ts";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { Link } from "../../route/link.tsx";
import { address, setQuery } from "../../route/location.ts";
import { useTitle } from "../../route/use-title.ts";
import { useStore } from "../../store/store.ts";
import { useSeveralReplicas } from "../../store/use-several-replicas.ts";
import { plural } from "../../text/numbers.ts";
import { countByTone, type ListedConnector, listed, matching } from "./connector-order.ts";
import { ConnectorRow } from "./connector-row.tsx";
import { NoConnectors } from "./no-connectors.tsx";

const tones: readonly (readonly [Tone, string])[] = [
  ["bad", "Failing"],
  ["warning", "Needs a look"],
  ["busy", "Busy"],
  ["good", "Fine"],
  ["idle", "Stopped"],
];

/** All connectors: what needs somebody first. */
export function ConnectorsPage() {
  useTitle("Connectors");
  const { live, access } = useConsole();
  const connectors = useStore(live.connectors);
  const problem = useStore(live.problem);
  const severalReplicas = useSeveralReplicas();
  const isNarrow = useMedia("(max-width: 60rem)");
  const query = useStore(address, (text) => text.split("?")[1] ?? "");
  const filter = useMemo(() => filterOf(query), [query]);
  const all = useMemo(() => (connectors ? listed(connectors.values()) : null), [connectors]);
  const shown = useMemo(() => (all ? matching(all, filter) : []), [all, filter]);
  const { box, rows, isOld, renew } = useSteadyRows({
    wanted: shown,
    all: all ?? [],
    keyOf: idOf,
    question: query,
  });
  if (!all)
    return (
      <>
        <h1>Connectors</h1>
        {problem ? <Failure title="No connectors yet" error={problem} /> : <p class="soft">Loading…</p>}
      </>
    );
  if (all.length === 0) return <NoConnectors canCreate={access === "Full"} />;
  const counts = countByTone(all);
  return (
    <>
      <div class="row apart">
        <h1>Connectors</h1>
        {access === "Full" ? (
          <Link class="button primary" to={{ page: "new", from: null }}>
            New connector
          </Link>
        ) : (
          <ReadOnlyNote />
        )}
      </div>
      <div class="row apart">
        <fieldset class="row">
          <legend class="only-spoken">Show</legend>
          <FilterButton
            {...{ label: "All", count: all.length, isChosen: filter.tone === null }}
            onChoose={() => setQuery({ show: null })}
          />
          {tones.map(([tone, label]) => (
            <FilterButton
              key={tone}
              {...{ tone, label, count: counts.get(tone) ?? 0, isChosen: tone === filter.tone }}
              onChoose={() => setQuery({ show: tone })}
            />
          ))}
        </fieldset>
        <SearchField
          {...{ label: "Find connectors", placeholder: "Find by name, host, state", value: filter.text }}
          onValue={(find) => setQuery({ find })}
        />
      </div>
      <p class="only-spoken" role="status">
        {plural(shown.length, "connector")}
      </p>
      <div class="connector-list" ref={box}>
        {isOld && (
          <div class="old-order">
            <Button
              size="small"
              title="Rows stay where they are while you point at them."
              onClick={({ detail, currentTarget }) => {
                renew();
                // The button goes. Who uses the keyboard stays in the list.
                if (detail === 0) currentTarget.closest(".connector-list")?.querySelector("a")?.focus();
              }}
            >
              Sort again
            </Button>
          </div>
        )}
        {rows.length === 0 ? (
          <p class="soft">No connector matches.</p>
        ) : (
          <VirtualList {...{ label: "Connectors", items: rows, rowHeight: isNarrow ? 140 : 84, keyOf: idOf }}>
            {(item) => <ConnectorRow {...item} showsReplica={severalReplicas} />}
          </VirtualList>
        )}
      </div>
    </>
  );
}

const idOf = ({ entry }: ListedConnector) => entry.connector.id;

function filterOf(query: string) {
  const parameters = new URLSearchParams(query);
  const tone = tones.find(([name]) => name === parameters.get("show"))?.[0] ?? null;
  return { text: parameters.get("find") ?? "", tone };
}
