import { useEffect, useRef } from "preact/hooks";
import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { SetAside } from "../../../connector/set-aside.tsx";
import { Button } from "../../../parts/button.tsx";
import { plural } from "../../../text/numbers.ts";
import { needsSomebody, refusedTables, tableKey } from "./table-order.ts";
import { WaitingForTable } from "./waiting-for-table.tsx";

const shownAtFirst = 3;

interface NeedySectionProps {
  readonly tables: readonly TableStatus[];
  /** Where their SQL is to be run. */
  readonly sink: string;
  readonly showsAll: boolean;
  readonly showAll: () => void;
  /** The table that the reader asked about. Another object each time: it is led to once more. */
  readonly asked: { readonly key: string } | null;
}

/** Tables that wait for somebody, with what mends each: the one place for it on this page. */
export function NeedySection({ tables, sink, showsAll, showAll, asked }: NeedySectionProps) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    const entries = section.current?.querySelectorAll<HTMLElement>("[data-table]") ?? [];
    const entry = [...entries].find(({ dataset }) => dataset.table === asked?.key);
    entry?.scrollIntoView({ block: "center" });
    entry?.focus({ preventScroll: true });
  }, [asked]);
  const needy = tables.filter(needsSomebody);
  const refused = refusedTables(tables);
  if (needy.length === 0) return null;
  const hidden = showsAll ? 0 : needy.length - shownAtFirst;
  return (
    <section class="needs stack" aria-labelledby="needy-title" ref={section}>
      <div>
        <h3 class="needs-title" id="needy-title">
          {plural(needy.length, "table needs you", "tables need you")}
        </h3>
        <p class="small soft">
          {refused.length === 0 ? (
            "The others go on. Each is copied again by itself, within seconds, once its cause is gone."
          ) : (
            <WaitingForTable tables={refused} />
          )}
        </p>
      </div>
      {needy.slice(0, showsAll ? needy.length : shownAtFirst).map((table) => (
        <div key={tableKey(table)} class="needy" data-table={tableKey(table)} tabIndex={-1}>
          <SetAside
            {...{ schema: table.schema, name: table.name, sink }}
            {...{ reason: table.reason ?? "", commands: table.commands ?? [] }}
          />
        </div>
      ))}
      {hidden > 0 && (
        <div>
          <Button size="small" onClick={showAll}>
            Show {plural(hidden, "more", "more")}
          </Button>
        </div>
      )}
    </section>
  );
}
