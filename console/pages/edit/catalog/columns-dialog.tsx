// The columns of one table: carried, hashed, or left out; and whether its history is kept. Each click counts at once.

import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import { Button } from "../../../parts/button.tsx";
import { Dialog } from "../../../parts/dialog.tsx";
import { type KnownTables, type Selection, type TableName, withColumn, withHistory } from "./selection.ts";

interface ColumnsDialogProps {
  readonly known: KnownTables;
  readonly catalog: CatalogRequest;
  readonly selection: Selection;
  readonly table: TableName;
  readonly put: (catalog: CatalogRequest) => void;
  readonly onClose: () => void;
}

export function ColumnsDialog({ known, catalog, selection, table, put, onClose }: ColumnsDialogProps) {
  const found = known
    .find(({ name }) => name === table.schema)
    ?.tables.find(({ name }) => name === table.table);
  const listed = new Map(
    selection.table(table.schema, table.table)?.columns?.map((column) => [column.name, column]),
  );
  const isTaken = selection.hasTable(table.schema, table.table);
  return (
    <Dialog title={`Columns of ${table.schema}.${table.table}`} onClose={onClose}>
      {!isTaken && <p class="soft">The table itself is left out.</p>}
      <table class="columns">
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Type</th>
            <th scope="col">Carry</th>
            <th scope="col">Hash</th>
          </tr>
        </thead>
        <tbody>
          {found?.columns.map((column) => {
            const { name, primary_key: isKey, supported } = column;
            const chosen = listed.get(name);
            const isCarried = chosen?.action !== "Exclude" && supported !== false;
            const change = (what: { isTaken?: boolean; isHashed?: boolean }) =>
              put(withColumn(catalog, known, table, name, what));
            return (
              <tr key={name}>
                <th scope="row" class="name">
                  {name}
                </th>
                <td class="soft small">
                  {column.data_type}
                  {isKey && ", key"}
                  {supported === false && ", not supported"}
                </td>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Carry ${name}`}
                    checked={isCarried}
                    disabled={isKey === true || supported === false}
                    onChange={(event) => change({ isTaken: event.currentTarget.checked })}
                  />
                </td>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Hash ${name}`}
                    checked={isCarried && chosen?.hash !== undefined}
                    disabled={!isCarried}
                    onChange={(event) => change({ isHashed: event.currentTarget.checked })}
                  />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <label class="check">
        <input
          type="checkbox"
          checked={selection.table(table.schema, table.table)?.history_enabled === true}
          disabled={!isTaken}
          onChange={(event) => put(withHistory(catalog, known, table, event.currentTarget.checked))}
        />
        <span>Keep every change of the table at a Postgres sink, in a table beside it</span>
      </label>
      <p class="small soft">
        Columns of the key are always carried. A hashed value cannot be read at the sink, but compared.
      </p>
      <div>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}
