import { SqlCommands } from "../parts/command.tsx";
import { TableName } from "./table-name.tsx";

interface SetAsideProps {
  readonly schema: string;
  readonly name: string;
  readonly reason: string;
  readonly commands: readonly string[];
}

/** A table that waits for somebody: why, and the SQL that mends it. */
export function SetAside({ schema, name, reason, commands }: SetAsideProps) {
  return (
    <div class="set-aside stack tight">
      <h3>
        <TableName schema={schema} name={name} />
      </h3>
      <p class="reason">{reason}</p>
      {commands.length > 0 && <p class="small soft">To run at the sink:</p>}
      <SqlCommands statements={commands} />
    </div>
  );
}
