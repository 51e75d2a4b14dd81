import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { sinkKind, sinkName } from "../../../connector/endpoints.ts";
import { streams } from "../../../connector/replication.ts";
import { SetAside } from "../../../connector/set-aside.tsx";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Dialog } from "../../../parts/dialog.tsx";
import { useMedia } from "../../../parts/use-media.ts";
import { VirtualList } from "../../../parts/virtual-list.tsx";
import { needsSomebody, tableKey } from "./table-order.ts";
import { TableRow } from "./table-row.tsx";

interface TableListProps {
  readonly entry: GivenConnector;
  readonly tables: readonly TableStatus[];
  /** Asks for a copy of it. */
  readonly copy: (table: TableStatus) => void;
  /** Asks for its comparison with the source. */
  readonly compare: (table: TableStatus) => void;
  /** Asks for its rows to be sent again. */
  readonly replay: (table: TableStatus) => void;
  /** Leads to what mends it. */
  readonly lead: (table: TableStatus) => void;
}

export function TableList({ entry, tables, copy, compare, replay, lead }: TableListProps) {
  const { access } = useConsole();
  const isNarrow = useMedia("(max-width: 46rem)");
  const [explained, setExplained] = useState<TableStatus | null>(null);
  const isStreaming = streams(entry.connector);
  const isPostgres = sinkKind(entry.connector) === "Postgres";
  const mayAsk = (table: TableStatus) => access === "Full" && isStreaming && table.state === "Streaming";
  return (
    <div class="table-list">
      <div class="table-row table-head small" aria-hidden="true">
        <span>Table</span>
        <span>State</span>
        <span class="number">{isStreaming ? "Changes in" : ""}</span>
        <span class="number">{isStreaming ? "Last change" : ""}</span>
        <span />
      </div>
      <VirtualList {...{ label: "Tables", items: tables, rowHeight: isNarrow ? 92 : 52, keyOf: tableKey }}>
        {(table) => (
          <TableRow
            {...{ table, isStreaming, mayWrite: access === "Full", copy: () => copy(table) }}
            explain={() => (needsSomebody(table) ? lead(table) : setExplained(table))}
            compare={isPostgres && mayAsk(table) ? () => compare(table) : null}
            replay={!isPostgres && mayAsk(table) ? () => replay(table) : null}
          />
        )}
      </VirtualList>
      {explained && (
        <Dialog title="Why this table stands here" onClose={() => setExplained(null)}>
          <SetAside
            {...{ schema: explained.schema, name: explained.name, sink: sinkName(entry.connector) }}
            {...{ reason: explained.reason ?? "", commands: explained.commands ?? [] }}
          />
          <div>
            <Button onClick={() => setExplained(null)}>Close</Button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
