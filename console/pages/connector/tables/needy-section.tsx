import { useState } from "preact/hooks";
import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { SetAside } from "../../../connector/set-aside.tsx";
import { Button } from "../../../parts/button.tsx";
import { plural } from "../../../text/numbers.ts";
import { needsSomebody, tableKey } from "./table-order.ts";

const shownAtFirst = 3;

interface NeedySectionProps {
  readonly tables: readonly TableStatus[];
  /** Where their SQL is to be run. */
  readonly sink: string;
}

/** Tables that wait for somebody, with what mends each. */
export function NeedySection({ tables, sink }: NeedySectionProps) {
  const [showsAll, setShowsAll] = useState(false);
  const needy = tables.filter(needsSomebody);
  if (needy.length === 0) return null;
  const hidden = showsAll ? 0 : needy.length - shownAtFirst;
  return (
    <section class="needs stack" aria-labelledby="needy-title">
      <div>
        <h3 class="needs-title" id="needy-title">
          {plural(needy.length, "table needs you", "tables need you")}
        </h3>
        <p class="small soft">
          The others go on. Each is copied again by itself, within seconds, once its cause is gone.
        </p>
      </div>
      {needy.slice(0, showsAll ? needy.length : shownAtFirst).map((table) => (
        <SetAside
          key={tableKey(table)}
          {...{ schema: table.schema, name: table.name, sink }}
          {...{ reason: table.reason ?? "", commands: table.commands ?? [] }}
        />
      ))}
      {hidden > 0 && (
        <div>
          <Button size="small" onClick={() => setShowsAll(true)}>
            Show {plural(hidden, "more", "more")}
          </Button>
        </div>
      )}
    </section>
  );
}
