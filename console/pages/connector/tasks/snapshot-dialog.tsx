import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Task } from "../../../../src/connector/task.ts";
import { answer } from "../../../api/client.ts";
import { ApiProblem } from "../../../api/problem.ts";
import { sinkKind } from "../../../connector/endpoints.ts";
import { canTruncate } from "../../../connector/replication.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Confirm } from "../../../parts/confirm.tsx";
import { CheckField, TextField } from "../../../parts/field.tsx";
import { waitsForConnector } from "./task-words.ts";

interface SnapshotDialogProps {
  readonly entry: GivenConnector;
  /** Null: the reader names it. */
  readonly table: { readonly schema: string; readonly name: string } | null;
  readonly onCreated: (task: Task) => void;
  readonly onClose: () => void;
}

/** Asks for a copy of one table, beside the stream. */
export function SnapshotDialog({ entry, table, onCreated, onClose }: SnapshotDialogProps) {
  const { api } = useConsole();
  const { connector, status } = entry;
  const [schema, setSchema] = useState(table?.schema ?? "public");
  const [name, setName] = useState(table?.name ?? "");
  const [truncate, setTruncate] = useState(false);
  const [parallel, setParallel] = useState(false);
  const isPostgres = canTruncate(connector);
  const run = async () => {
    if (schema === "" || name === "") throw new ApiProblem(0, "", "Name the schema and the table.");
    const Snapshot = { schema, name, truncate, force_parallel: parallel };
    onCreated(await answer(api.connectors({ connector_id: connector.id }).tasks.post({ Snapshot })));
  };
  return (
    <Confirm
      {...{ title: "Copy a table again", action: "Start the copy", isDangerous: truncate, run, onClose }}
    >
      {table ? (
        <p>
          <TableName schema={table.schema} name={table.name} />
        </p>
      ) : (
        <div class="two-fields">
          <TextField {...{ label: "Schema", value: schema, onValue: setSchema, autocomplete: "off" }} />
          <TextField {...{ label: "Table", value: name, onValue: setName, autocomplete: "off" }} />
        </div>
      )}
      <p class="small soft">
        {isPostgres
          ? "Rows that the sink lacks or has otherwise are written, the rest is left alone. Changes go on meanwhile; for some tables the stream waits."
          : `Every row of the table goes to ${sinkKind(connector) === "Kafka" ? "its topic" : "the receiver"} once more. Changes go on meanwhile; for some tables the stream waits.`}
      </p>
      {isPostgres && (
        <CheckField
          {...{
            label: "Remove rows that the source does not have",
            checked: truncate,
            onChecked: setTruncate,
          }}
          hint="At the end of the copy, and only at the sink. Also rows that somebody else wrote there."
        />
      )}
      <CheckField
        {...{
          label: "Copy in several chunks, however small it is",
          checked: parallel,
          onChecked: setParallel,
        }}
        hint="Large tables are copied so in any case."
      />
      {waitsForConnector(status) && (
        <p class="small strong">The connector does not run now: the task waits until it does.</p>
      )}
    </Confirm>
  );
}
