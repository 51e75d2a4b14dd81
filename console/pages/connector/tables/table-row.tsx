import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { Progress } from "../../../charts/progress.tsx";
import { tableCopyProgress } from "../../../connector/copy-progress.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { shortCount } from "../../../text/numbers.ts";
import { standTone, standWord, tableAction, tableStand } from "./table-order.ts";

interface TableRowProps {
  readonly table: TableStatus;
  readonly isStreaming: boolean;
  /** Copies may be asked for. */
  readonly mayWrite: boolean;
  readonly explain: () => void;
  readonly copy: () => void;
  /** Asks for its comparison with the source; null: it cannot be asked for. */
  readonly compare: (() => void) | null;
  /** Asks for its rows to be sent again; null: it cannot be asked for. */
  readonly replay: (() => void) | null;
}

export function TableRow({ table, isStreaming, mayWrite, explain, copy, compare, replay }: TableRowProps) {
  const { schema, name, verified } = table;
  const full = `${schema}.${name}`;
  const stand = tableStand(table);
  const action = tableAction(table, mayWrite);
  return (
    <article class="table-row">
      <div class="who" title={full}>
        <TableName schema={schema} name={name} />
      </div>
      <div class="how row">
        <Badge tone={standTone(stand)}>{standWord(stand, isStreaming)}</Badge>
        {table.compared && (
          <span class="small soft">
            {`${shortCount(table.compared.rows)} of ${shortCount(table.compared.estimated_rows)} rows compared`}
          </span>
        )}
        {verified && (
          <span class={`small ${verified.differing > 0 ? "wrong" : "soft"}`}>
            {verified.differing > 0 ? `${shortCount(verified.differing)} rows differed ` : "equal "}
            <TimeAgo at={verified.at} />
          </span>
        )}
      </div>
      {table.copy ? (
        <CopyFigures table={table} copy={table.copy} />
      ) : (
        <StreamFigures table={table} isStreaming={isStreaming} />
      )}
      <div class="do">
        {compare && (
          <Button size="small" onClick={compare} aria-label={`Compare: ${full}`}>
            Compare
          </Button>
        )}
        {replay && (
          <Button size="small" onClick={replay} aria-label={`Send again: ${full}`}>
            Send again
          </Button>
        )}
        {action && (
          <Button
            size="small"
            kind={action.does === "copy" ? "normal" : "plain"}
            onClick={action.does === "copy" ? copy : explain}
            aria-label={`${action.word} ${full}`}
          >
            {action.word}
          </Button>
        )}
      </div>
    </article>
  );
}

type Copy = NonNullable<TableStatus["copy"]>;

function CopyFigures({ table, copy }: { readonly table: TableStatus; readonly copy: Copy }) {
  return (
    <div class="copying">
      <Progress {...{ label: `Copy of ${table.schema}.${table.name}`, ...tableCopyProgress(copy) }} />
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
