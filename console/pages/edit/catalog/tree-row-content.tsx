// What a row of the tree shows.

import { grouped, plural } from "../../../text/numbers.ts";
import type { TableName } from "./selection.ts";
import type { Ticked, TreeRow } from "./tree-rows.ts";

interface TreeRowContentProps {
  readonly row: TreeRow;
  readonly fold: (schema: string, isClosed: boolean) => void;
  readonly openColumns: (table: TableName) => void;
}

export function TreeRowContent({ row, fold, openColumns }: TreeRowContentProps) {
  return (
    <>
      {row.kind === "schema" && (
        <button
          type="button"
          class="fold"
          tabIndex={-1}
          aria-hidden="true"
          onClick={(event) => {
            event.stopPropagation();
            fold(row.schema, row.isOpen);
          }}
        >
          {row.isOpen ? "▾" : "▸"}
        </button>
      )}
      <Tick ticked={row.ticked} />
      <span class="name tree-name" title={row.kind === "schema" ? row.schema : row.table}>
        {row.kind === "schema" ? row.schema : row.table}
      </span>
      {row.kind === "schema" ? (
        <span class="small soft">
          {grouped(row.taken)} of {grouped(row.tables.length)}
        </span>
      ) : (
        <button
          type="button"
          class="columns-link small"
          tabIndex={-1}
          onClick={(event) => {
            event.stopPropagation();
            openColumns(row);
          }}
        >
          {columnsText(row)}
        </button>
      )}
    </>
  );
}

function columnsText(row: Extract<TreeRow, { kind: "table" }>): string {
  const parts = [plural(row.columns, "column")];
  if (row.leftOut > 0) parts.push(`${row.leftOut} left out`);
  if (row.hashed > 0) parts.push(`${row.hashed} hashed`);
  if (row.hasHistory) parts.push("history");
  return parts.join(", ");
}

/** The box of a checkbox; the row itself says to those who hear the page whether it is ticked. */
function Tick({ ticked }: { readonly ticked: Ticked }) {
  return (
    <svg class={`tick ${ticked}`} viewBox="0 0 16 16" aria-hidden="true">
      <rect x="1" y="1" width="14" height="14" rx="3" />
      {ticked === "all" && <path d="M4 8.2l2.7 2.7L12 5.4" />}
      {ticked === "some" && <path d="M4.5 8h7" />}
    </svg>
  );
}
