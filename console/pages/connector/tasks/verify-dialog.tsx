import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Task } from "../../../../src/connector/task.ts";
import { answer } from "../../../api/client.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Confirm } from "../../../parts/confirm.tsx";
import { CheckField } from "../../../parts/field.tsx";
import { waitsForConnector } from "./task-words.ts";

interface VerifyDialogProps {
  readonly entry: GivenConnector;
  readonly table: { readonly schema: string; readonly name: string };
  readonly onCreated: (task: Task) => void;
  readonly onClose: () => void;
}

/** Asks for a comparison of one table with its source. */
export function VerifyDialog({ entry, table, onCreated, onClose }: VerifyDialogProps) {
  const { api } = useConsole();
  const { connector, status } = entry;
  const [repairs, setRepairs] = useState(false);
  const { schema, name } = table;
  const run = async () => {
    const repair = repairs ? ("Apply" as const) : ("None" as const);
    const tasks = api.connectors({ connector_id: connector.id }).tasks;
    onCreated(await answer(tasks.post({ Verify: { schema, name, repair } })));
  };
  return (
    <Confirm {...{ title: "Compare a table", action: "Compare", isDangerous: repairs, run, onClose }}>
      <p>
        <TableName schema={schema} name={name} />
      </p>
      <p class="small soft">
        Every row at the sink is compared with the source, as of one place of its log. Changes go on
        meanwhile.
      </p>
      <CheckField
        {...{ label: "Repair the rows that differ", checked: repairs, onChecked: setRepairs }}
        hint="They are replaced by the source's, and rows that it does not have are removed. Nothing else is touched."
      />
      {waitsForConnector(status) && (
        <p class="small strong">The connector does not run now: the task waits until it does.</p>
      )}
    </Confirm>
  );
}
