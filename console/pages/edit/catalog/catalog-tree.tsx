// The tables of the source as a tree with checkboxes, of any size. Keys as in https://www.w3.org/WAI/ARIA/apg/patterns/treeview/.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import { Button } from "../../../parts/button.tsx";
import { useSeenRows } from "../../../parts/seen-rows.ts";
import { grouped } from "../../../text/numbers.ts";
import { ColumnsDialog } from "./columns-dialog.tsx";
import { type KnownTables, Selection, type TableName, withTables } from "./selection.ts";
import { TreeRowContent } from "./tree-row-content.tsx";
import { nextRow, type TreeRow, treeView } from "./tree-rows.ts";

const rowHeight = 38;

interface CatalogTreeProps {
  readonly known: KnownTables;
  readonly catalog: CatalogRequest;
  readonly put: (catalog: CatalogRequest) => void;
  readonly reload: () => void;
}

export function CatalogTree({ known, catalog, put, reload }: CatalogTreeProps) {
  const [search, setSearch] = useState("");
  const [closed, setClosed] = useState<ReadonlySet<string>>(() => initiallyClosed(known));
  const [columnsOf, setColumnsOf] = useState<TableName | null>(null);
  const selection = useMemo(() => new Selection(catalog), [catalog]);
  const view = useMemo(() => treeView(known, selection, search, closed), [known, selection, search, closed]);
  const tick = (tables: readonly TableName[], isTaken: boolean) =>
    put(withTables(catalog, known, tables, isTaken));
  const fold = (schema: string, isClosed: boolean) => {
    const next = new Set(closed);
    if (isClosed) next.add(schema);
    else next.delete(schema);
    setClosed(next);
  };
  const isSearch = search.trim() !== "";
  return (
    <section class="card stack">
      <div class="row apart">
        <label class="search">
          <span class="only-spoken">Find tables and columns</span>
          <input
            {...{ type: "search", class: "input", placeholder: "Find tables and columns", value: search }}
            spellcheck={false}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
        </label>
        <div class="row">
          <Button size="small" onClick={() => tick(view.tables, true)}>
            Tick all{isSearch ? " found" : ""}
          </Button>
          <Button size="small" onClick={() => tick(view.tables, false)}>
            Untick all{isSearch ? " found" : ""}
          </Button>
          <Button size="small" onClick={reload}>
            Read again
          </Button>
        </div>
      </div>
      <div class="row apart small soft">
        <p role="status">
          {view.tables.length === 0
            ? isSearch
              ? "Nothing is found."
              : "The source has no tables."
            : `${grouped(view.taken)} of ${grouped(view.tables.length)} ${isSearch ? "found " : ""}tables are carried`}
        </p>
        <p id="tree-keys">Arrow keys move, space ticks, Enter shows a table's columns.</p>
      </div>
      {view.rows.length > 0 && <Tree {...{ rows: view.rows, tick, fold, openColumns: setColumnsOf }} />}
      {columnsOf && (
        <ColumnsDialog
          {...{ known, catalog, selection, table: columnsOf, put }}
          onClose={() => setColumnsOf(null)}
        />
      )}
    </section>
  );
}

/** A few schemas are shown whole; many would hide each other. */
function initiallyClosed(known: KnownTables): ReadonlySet<string> {
  return new Set(known.length > 6 ? known.map(({ name }) => name) : []);
}

interface TreeProps {
  readonly rows: readonly TreeRow[];
  readonly tick: (tables: readonly TableName[], isTaken: boolean) => void;
  readonly fold: (schema: string, isClosed: boolean) => void;
  readonly openColumns: (table: TableName) => void;
}

function Tree({ rows, tick, fold, openColumns }: TreeProps) {
  const { box, first, last } = useSeenRows(rows.length, rowHeight);
  const [currentKey, setCurrentKey] = useState<string | null>(null);
  const wantsFocus = useRef(false);
  const at = Math.max(
    0,
    rows.findIndex(({ key }) => key === currentKey),
  );
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    const row = box.current?.querySelector<HTMLElement>('[tabindex="0"]');
    row?.focus({ preventScroll: true });
    // The bar below the step may lie over a part of the tree.
    row?.scrollIntoView({ block: "nearest" });
  });
  const moveTo = (index: number) => {
    const row = rows[index];
    const element = box.current;
    if (!row || !element) return;
    const [top, bottom] = [index * rowHeight, (index + 1) * rowHeight];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight)
      element.scrollTop = bottom - element.clientHeight;
    wantsFocus.current = true;
    setCurrentKey(row.key);
  };
  const toggle = (row: TreeRow) =>
    row.kind === "schema"
      ? tick(row.tables, row.ticked !== "all")
      : tick([{ schema: row.schema, table: row.table }], row.ticked === "none");
  const press = (event: KeyboardEvent, row: TreeRow) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = nextRow(rows, at, event.key);
    if (target !== null) moveTo(target);
    else if (event.key === " ") toggle(row);
    else if (event.key === "Enter" && row.kind === "table") openColumns(row);
    else if (row.kind === "schema" && isFoldKey(event.key, row.isOpen)) fold(row.schema, row.isOpen);
    else return;
    event.preventDefault();
  };
  // The row that has the focus stays, also when it is scrolled out of sight.
  const seen = rows.slice(first, last).map((row, offset) => ({ row, index: first + offset }));
  const current = rows[at];
  const drawn = current && (at < first || at >= last) ? [...seen, { row: current, index: at }] : seen;
  return (
    <div
      class="virtual tree"
      ref={box as never}
      role="tree"
      aria-label="Tables"
      aria-describedby="tree-keys"
      aria-multiselectable="true"
    >
      <div class="virtual-all" role="none" style={{ height: `${rows.length * rowHeight}px` }}>
        {drawn.map(({ row, index }) => (
          <div
            key={row.key}
            role="treeitem"
            tabIndex={index === at ? 0 : -1}
            aria-level={row.kind === "schema" ? 1 : 2}
            aria-setsize={row.setSize}
            aria-posinset={row.position}
            aria-checked={row.ticked === "some" ? "mixed" : row.ticked === "all"}
            {...(row.kind === "schema" && { "aria-expanded": row.isOpen })}
            class={`tree-row ${row.kind}`}
            style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
            onKeyDown={(event) => press(event, row)}
            onFocus={() => setCurrentKey(row.key)}
            onClick={() => toggle(row)}
          >
            <TreeRowContent {...{ row, fold, openColumns }} />
          </div>
        ))}
      </div>
    </div>
  );
}

function isFoldKey(key: string, isOpen: boolean): boolean {
  return key === "Enter" || key === (isOpen ? "ArrowLeft" : "ArrowRight");
}
