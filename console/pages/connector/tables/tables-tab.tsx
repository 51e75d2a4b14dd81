import { useMemo, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { TableStatus } from "../../../../src/connector/table-status.ts";
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
import { ReplayDialog } from "../tasks/replay-dialog.tsx";
import { SnapshotDialog } from "../tasks/snapshot-dialog.tsx";
import { VerifyDialog } from "../tasks/verify-dialog.tsx";
import { NeedySection } from "./needy-section.tsx";
import { TableList } from "./table-list.tsx";
import {
  countByStand,
  matchingTables,
  ordered,
  standTone,
  standWord,
  type TableStand,
  tableKey,
  tableStands,
} from "./table-order.ts";

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

const dialogs = { copy: SnapshotDialog, comparison: VerifyDialog, replay: ReplayDialog };

/** A task that the reader asks for. */
interface Asked {
  readonly table: TableStatus;
  readonly what: keyof typeof dialogs;
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
  const [made, setMade] = useState<Asked | null>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [showsAll, setShowsAll] = useState(false);
  const [led, setLed] = useState<{ readonly key: string } | null>(null);
  const lead = (table: TableStatus) => {
    setShowsAll(true);
    setLed({ key: tableKey(table) });
  };
  const { id } = entry.connector;
  const TaskDialog = dialogs[asked?.what ?? "copy"];
  const onClose = () => setAsked(null);
  const onCreated = () => {
    setMade(asked);
    reload();
  };
  return (
    <>
      <h2 class="only-spoken">Tables</h2>
      <NeedySection
        {...{ tables, sink: sinkName(entry.connector), showsAll, asked: led }}
        showAll={() => setShowsAll(true)}
      />
      <Filters {...{ tables, filter, isStreaming: streams(entry.connector) }} />
      <p class="only-spoken" role="status">
        {plural(shown.length, "table")}
      </p>
      {made && (
        <Notice tone="busy" role="status">
          <p>
            A {made.what} of <span class="name">{`${made.table.schema}.${made.table.name}`}</span> is asked
            for. <Link to={{ page: "connector", id, tab: "tasks" }}>See its task</Link>
          </p>
        </Notice>
      )}
      {shown.length === 0 ? (
        <p class="soft">No table matches.</p>
      ) : (
        <TableList
          {...{ entry, tables: shown, lead }}
          copy={(table) => setAsked({ table, what: "copy" })}
          compare={(table) => setAsked({ table, what: "comparison" })}
          replay={(table) => setAsked({ table, what: "replay" })}
        />
      )}
      {asked && <TaskDialog {...{ entry, table: asked.table, onClose, onCreated }} />}
    </>
  );
}

interface FiltersProps {
  readonly tables: readonly TableStatus[];
  readonly filter: ReturnType<typeof filterOf>;
  readonly isStreaming: boolean;
}

function Filters({ tables, filter, isStreaming }: FiltersProps) {
  const counts = useMemo(() => countByStand(tables), [tables]);
  const choose = (stand: TableStand | null) => () => setQuery({ show: stand });
  return (
    <div class="row apart">
      <fieldset class="row">
        <legend class="only-spoken">Show</legend>
        <FilterButton
          {...{ label: "All", count: tables.length, isChosen: filter.stand === null, onChoose: choose(null) }}
        />
        {tableStands
          .filter((stand) => counts.has(stand) || filter.stand === stand)
          .map((stand) => (
            <FilterButton
              key={stand}
              {...{ label: standWord(stand, isStreaming), count: counts.get(stand) ?? 0 }}
              {...{ tone: standTone(stand), isChosen: filter.stand === stand, onChoose: choose(stand) }}
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
  const stand = tableStands.find((name) => name === parameters.get("show")) ?? null;
  return { text: parameters.get("find") ?? "", stand };
}
