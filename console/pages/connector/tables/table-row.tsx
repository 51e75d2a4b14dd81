import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { Progress } from "../../../charts/progress.tsx";
import { tableCopyProgress } from "../../../connector/copy-progress.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { shortCount } from "../../../text/numbers.ts";
import { tableTone, tableWord } from "./table-order.ts";

interface TableRowProps {
  readonly table: TableStatus;
  readonly isStreaming: boolean;
  readonly explain: () => void;
  /** Null: it cannot be asked for. */
  readonly copy: (() => void) | null;
}

export function TableRow({ table, isStreaming, explain, copy }: TableRowProps) {
  const { schema, name, state, reason } = table;
  const full = `${schema}.${name}`;
  return (
    <article class="table-row">
      <div class="who" title={full}>
        <TableName schema={schema} name={name} />
      </div>
      <div class="how row">
        <Badge tone={tableTone(state)}>{tableWord(state, isStreaming)}</Badge>
        {reason && (
          <Button size="small" kind="plain" onClick={explain} aria-label={`Why? ${full}`}>
            Why?
          </Button>
        )}
      </div>
      {table.copy ? (
        <CopyFigures table={table} copy={table.copy} />
      ) : (
        <StreamFigures table={table} isStreaming={isStreaming} />
      )}
      <div class="do">
        {copy && (
          <Button size="small" onClick={copy} aria-label={`Copy again: ${full}`}>
            Copy again
          </Button>
        )}
      </div>
    </article>
  );
}

type Copy = NonNullable<TableStatus["copy"]>;

function CopyFigures({
  table,
  copy: { rows, estimated_rows },
}: {
  readonly table: TableStatus;
  readonly copy: Copy;
}) {
  return (
    <div class="copying">
      <Progress
        {...{ label: `Copy of ${table.schema}.${table.name}`, ...tableCopyProgress(rows, estimated_rows) }}
      />
    </div>
  );
}

function StreamFigures({ table, isStreaming }: Pick<TableRowProps, "table" | "isStreaming">) {
  const { state, rows_in, last_change_at } = table;
  if (!isStreaming || state === "Excluded") return <div class="figures" />;
  return (
    <div class="figures">
      <span class="number">
        {shortCount(rows_in)}
        <span class="narrow-label"> {rows_in === 1 ? "change" : "changes"} in</span>
      </span>
      <span class="number soft">{last_change_at ? <TimeAgo at={last_change_at} /> : "–"}</span>
    </div>
  );
}
