// One connector: how it is, what it carries, what happened to it, and what can be done about it.

import { useEffect, useRef } from "preact/hooks";
import { sinkKind } from "../../connector/endpoints.ts";
import type { KnownConnector } from "../../connector/known-connector.ts";
import { needyTables } from "../../connector/needy-tables.ts";
import { Failure, Notice } from "../../parts/notice.tsx";
import { Link } from "../../route/link.tsx";
import { type ConnectorTab, connectorTabs } from "../../route/route.ts";
import { useTitle } from "../../route/use-title.ts";
import { ConfigurationTab } from "./configuration/configuration-tab.tsx";
import { DoctorTab } from "./doctor/doctor-tab.tsx";
import { ConnectorHead } from "./head/connector-head.tsx";
import { HistoryTab } from "./history/history-tab.tsx";
import { OverviewTab } from "./overview/overview-tab.tsx";
import { ParkedTab } from "./parked/parked-tab.tsx";
import { RowsTab } from "./rows/rows-tab.tsx";
import { TablesTab } from "./tables/tables-tab.tsx";
import { TasksTab } from "./tasks/tasks-tab.tsx";
import { useConnector } from "./use-connector.ts";

interface ConnectorPageProps {
  readonly id: string;
  readonly tab: ConnectorTab;
}

export function ConnectorPage({ id, tab }: ConnectorPageProps) {
  useTitle(tab === "overview" ? id : `${tabNames[tab]} of ${id}`);
  const shown = useConnector(id);
  switch (shown.kind) {
    case "loading":
      return (
        <>
          <h1 class="name">{id}</h1>
          <p class="soft">Loading…</p>
        </>
      );
    case "unreached":
      return (
        <>
          <h1 class="name">{id}</h1>
          <Failure title="The connector is not known yet" error={shown.problem} />
        </>
      );
    case "unknown":
      return <Gone title="There is no such connector" id={id} text="No connector has this id now." />;
    case "deleted":
      return <Gone title="The connector is gone" id={id} text="It was deleted." />;
    case "known":
      return (
        <>
          <ConnectorHead entry={shown.entry} />
          <Tabs
            {...{ id, tab, sink: sinkKind(shown.entry.connector) }}
            setAside={needyTables(shown.entry.status).length}
          />
          <Tab entry={shown.entry} tab={tab} />
        </>
      );
  }
}

const tabNames: Readonly<Record<ConnectorTab, string>> = {
  overview: "Overview",
  tables: "Tables",
  tasks: "Tasks",
  parked: "Parked",
  rows: "Find a row",
  history: "History",
  doctor: "Doctor",
  configuration: "Configuration",
};

interface TabsProps extends ConnectorPageProps {
  readonly setAside: number;
  readonly sink: ReturnType<typeof sinkKind>;
}

/** A sink of messages can park them, and keep receipts. */
function hasTab(sink: TabsProps["sink"], tab: ConnectorTab): boolean {
  return sink !== "Postgres" || (tab !== "parked" && tab !== "rows");
}

function Tabs({ id, tab, setAside, sink }: TabsProps) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone there is no room for all.
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [tab]);
  return (
    <nav class="tabs" aria-label="Parts of the connector" ref={nav}>
      {connectorTabs
        .filter((name) => hasTab(sink, name))
        .map((name) => (
          <Link
            key={name}
            to={{ page: "connector", id, tab: name }}
            {...(name === tab && { "aria-current": "page" as const })}
          >
            {tabNames[name]}
            {name === "tables" && setAside > 0 && (
              <span class="tab-count tone-warning">
                {setAside}
                <span class="only-spoken"> set aside</span>
              </span>
            )}
          </Link>
        ))}
    </nav>
  );
}

function Tab({ entry, tab }: { readonly entry: KnownConnector; readonly tab: ConnectorTab }) {
  switch (tab) {
    case "overview":
      return <OverviewTab entry={entry} />;
    case "tables":
      return <TablesTab entry={entry} />;
    case "tasks":
      return <TasksTab entry={entry} />;
    case "parked":
      return <ParkedTab entry={entry} />;
    case "rows":
      return <RowsTab entry={entry} />;
    case "history":
      return <HistoryTab entry={entry} />;
    case "doctor":
      return <DoctorTab entry={entry} />;
    case "configuration":
      return <ConfigurationTab entry={entry} />;
  }
}

function Gone({ title, id, text }: { readonly title: string; readonly id: string; readonly text: string }) {
  return (
    <div class="empty">
      <h1>{title}</h1>
      <Notice tone="idle" role="status">
        <p>
          <strong class="name">{id}</strong>: {text}
        </p>
      </Notice>
      <Link class="button" to={{ page: "connectors" }}>
        All connectors
      </Link>
    </div>
  );
}
