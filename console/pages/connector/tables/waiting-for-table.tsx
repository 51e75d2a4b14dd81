import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { grouped } from "../../../text/numbers.ts";

const named = 2;

/** For which tables all others wait. */
export function WaitingForTable({ tables }: { readonly tables: readonly TableStatus[] }) {
  const rest = tables.length - named;
  return (
    <>
      All others wait for{" "}
      {tables.slice(0, named).map(({ schema, name }, index) => (
        <span key={`${schema}.${name}`}>
          {index > 0 && (rest > 0 ? ", " : " and ")}
          <TableName schema={schema} name={name} />
        </span>
      ))}
      {rest > 0 && ` and ${grouped(rest)} more`}: the sink does not take it as it is. It is tried again by
      itself, and all go on once the cause is gone.
    </>
  );
}
