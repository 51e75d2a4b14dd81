import { SqlCommands } from "../parts/command.tsx";
import { Reason } from "./reason.tsx";
import { TableName } from "./table-name.tsx";
import { withoutSql } from "./without-sql.ts";

interface SetAsideProps {
  readonly schema: string;
  readonly name: string;
  readonly reason: string;
  readonly commands: readonly string[];
  /** Where its SQL is to be run: a database and its host. */
  readonly sink: string;
}

/** A table that waits for somebody: why, and the SQL that mends it. */
export function SetAside({ schema, name, reason, commands, sink }: SetAsideProps) {
  return (
    <div class="set-aside stack tight">
      <h3>
        <TableName schema={schema} name={name} />
      </h3>
      <Reason text={withoutSql(reason, commands)} />
      {commands.length > 0 && (
        <p class="small soft">
          Run this at the sink, <span class="name strong">{sink}</span>:
        </p>
      )}
      <SqlCommands statements={commands} />
    </div>
  );
}
