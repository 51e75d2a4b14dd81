import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { GivenKey } from "../../../../src/connector/replay.ts";
import type { Task } from "../../../../src/connector/task.ts";
import { answer } from "../../../api/client.ts";
import { ApiProblem } from "../../../api/problem.ts";
import { sinkKind } from "../../../connector/endpoints.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Confirm } from "../../../parts/confirm.tsx";
import { AreaField, CheckField } from "../../../parts/field.tsx";
import { readKeys } from "./given-keys.ts";
import { waitsForConnector } from "./task-words.ts";

interface ReplayDialogProps {
  readonly entry: GivenConnector;
  readonly table: { readonly schema: string; readonly name: string };
  readonly onCreated: (task: Task) => void;
  readonly onClose: () => void;
}

/** Asks for rows of one table to be sent again. */
export function ReplayDialog({ entry, table, onCreated, onClose }: ReplayDialogProps) {
  const { api } = useConsole();
  const { connector, status } = entry;
  const { schema, name } = table;
  const [text, setText] = useState("");
  const [isWhole, setWhole] = useState(false);
  const run = async () => {
    const rows = isWhole ? {} : { keys: namedKeys(text) };
    const tasks = api.connectors({ connector_id: connector.id }).tasks;
    onCreated(await answer(tasks.post({ Replay: { schema, name, ...rows } })));
  };
  const action = isWhole ? "Send the whole table" : "Send again";
  const target = sinkKind(connector) === "Kafka" ? "its topic" : "the receiver";
  return (
    <Confirm {...{ title: "Send rows again", action, isDangerous: isWhole, run, onClose }}>
      <p>
        <TableName schema={schema} name={name} />
      </p>
      <p class="small soft">
        The rows go to {target} once more, as they are now. Each has a version above all that it had, and an
        idempotency key of its own. Changes go on meanwhile, and none is overtaken. For a row that is not
        there any more nothing is sent.
      </p>
      {!isWhole && (
        <AreaField
          {...{ label: "Keys of the rows", name: "keys", value: text, onValue: setText, rows: 4 }}
          hint={'One in each line, such as {"id": 7}. At most 1,000.'}
        />
      )}
      <CheckField
        {...{ label: "The whole table", name: "whole", checked: isWhole, onChecked: setWhole }}
        hint={`Every row goes to ${target} once more. Once it has begun it cannot be cancelled.`}
      />
      {waitsForConnector(status) && (
        <p class="small strong">The connector does not run now: the task waits until it does.</p>
      )}
    </Confirm>
  );
}

/** An empty list would send the whole table. */
function namedKeys(text: string): GivenKey[] {
  const read = readKeys(text);
  if ("wrong" in read)
    throw new ApiProblem(0, "", `Line ${read.wrong} is no key: write JSON, such as {"id": 7}.`);
  if (read.keys.length === 0)
    throw new ApiProblem(0, "", "Write the key of a row, or choose the whole table.");
  return [...read.keys];
}
