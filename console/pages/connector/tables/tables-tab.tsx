import { useMemo, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { TableState, TableStatus } from "../../../../src/connector/table-status.ts";
import { answer } from "../../../api/client.ts";
import { sinkName } from "../../../connector/endpoints.ts";
import { streams } from "../../../connector/replication.ts";
import { useConsole } from "../../../console-context.ts";
import { FilterButton, SearchField } from "../../../parts/filter.tsx";
import { Failure, Notice } from "../../../parts/notice.tsx";
import { Link } from "../../../route/link.tsx";
import { address, setQuery } from "../../../route/location.ts";
import { useStore } from "../../../store/store.ts";
import { useLoaded } from "../../../store/use-loaded.ts";
import { plural } from "../../../text/numbers.ts";
import { SnapshotDialog } from "../tasks/snapshot-dialog.tsx";
import { NeedySection } from "./needy-section.tsx";
import { TableList } from "./table-list.tsx";
import { countByState, matchingTables, ordered, tableStates, tableTone, tableWord } from "./table-order.ts";

const pollMs = 4_000;

export function TablesTab({ entry }: { readonly entry: GivenConnector }) {
  const { api } = useConsole();
  const { id } = entry.connector;
  const { data, error, reload } = useLoaded(
    () => answer(api.connectors({ connector_id: id }).tables.get()),
    [id],
    pollMs,
  );
  const tables = useMemo(() => (data ? ordered(data.tables) : null), [data]);
  if (!tables) {
    return error === null ? (
      <p class="soft">Loading…</p>
    ) : (
      <Failure title="The tables cannot be shown" error={error} retry={reload} />
    );
  }
  return tables.length === 0 ? <NoTables entry={entry} /> : <Tables {...{ entry, tables, reload }} />;
}

function NoTables({ entry }: { readonly entry: GivenConnector }) {
  const { start, initialize } = entry.status.state;
  const isBeginning = start !== undefined || initialize !== undefined;
  return (
    <div class="empty card">
      <h2>No tables to show</h2>
      <p class="soft">
        {isBeginning
          ? "The run is about to read the source's catalog."
          : "No run has read the source's catalog since the service started, or the connector selects no table."}
      </p>
    </div>
  );
}

interface TablesProps {
  readonly entry: GivenConnector;
  readonly tables: readonly TableStatus[];
  readonly reload: () => void;
}

function Tables({ entry, tables, reload }: TablesProps) {
  const query = useStore(address, (text) => text.split("?")[1] ?? "");
  const filter = useMemo(() => filterOf(query), [query]);
  const shown = useMemo(() => matchingTables(tables, filter), [tables, filter]);
  const [copied, setCopied] = useState<TableStatus | null>(null);
  const [asked, setAsked] = useState<TableStatus | null>(null);
  const { id } = entry.connector;
  return (
    <>
      <h2 class="only-spoken">Tables</h2>
      <NeedySection tables={tables} sink={sinkName(entry.connector)} />
      <Filters {...{ tables, filter, isStreaming: streams(entry.connector) }} />
      <p class="only-spoken" role="status">
        {plural(shown.length, "table")}
      </p>
      {copied && (
        <Notice tone="busy" role="status">
          <p>
            A copy of <span class="name">{`${copied.schema}.${copied.name}`}</span> is asked for.{" "}
            <Link to={{ page: "connector", id, tab: "tasks" }}>See its task</Link>
          </p>
        </Notice>
      )}
      {shown.length === 0 ? (
        <p class="soft">No table matches.</p>
      ) : (
        <TableList {...{ entry, tables: shown, copy: setAsked }} />
      )}
      {asked && (
        <SnapshotDialog
          {...{ entry, table: asked, onClose: () => setAsked(null) }}
          onCreated={() => {
            setCopied(asked);
            reload();
          }}
        />
      )}
    </>
  );
}

interface FiltersProps {
  readonly tables: readonly TableStatus[];
  readonly filter: ReturnType<typeof filterOf>;
  readonly isStreaming: boolean;
}

function Filters({ tables, filter, isStreaming }: FiltersProps) {
  const counts = useMemo(() => countByState(tables), [tables]);
  const choose = (state: TableState | null) => () => setQuery({ show: state });
  return (
    <div class="row apart">
      <fieldset class="row">
        <legend class="only-spoken">Show</legend>
        <FilterButton
          {...{ label: "All", count: tables.length, isChosen: filter.state === null, onChoose: choose(null) }}
        />
        {tableStates
          .filter((state) => counts.has(state) || filter.state === state)
          .map((state) => (
            <FilterButton
              key={state}
              {...{ label: tableWord(state, isStreaming), count: counts.get(state) ?? 0 }}
              {...{ tone: tableTone(state), isChosen: filter.state === state, onChoose: choose(state) }}
            />
          ))}
      </fieldset>
      <SearchField
        {...{ label: "Find tables", placeholder: "Find by name", value: filter.text }}
        onValue={(find) => setQuery({ find })}
      />
    </div>
  );
}

function filterOf(query: string) {
  const parameters = new URLSearchParams(query);
  const state = tableStates.find((name) => name === parameters.get("show")) ?? null;
  return { text: parameters.get("find") ?? "", state };
}
