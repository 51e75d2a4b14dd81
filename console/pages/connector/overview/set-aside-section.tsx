import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { sinkName } from "../../../connector/endpoints.ts";
import { SetAside } from "../../../connector/set-aside.tsx";
import { Link } from "../../../route/link.tsx";
import { grouped, plural } from "../../../text/numbers.ts";

const shown = 3;

/** Tables that wait for somebody, while the others go on. */
export function SetAsideSection({ entry }: { readonly entry: GivenConnector }) {
  const tables = entry.status.tables_set_aside ?? [];
  if (tables.length === 0) return null;
  return (
    <section class="needs stack" aria-labelledby="set-aside-title">
      <div>
        <h2 id="set-aside-title">{plural(tables.length, "table")} set aside</h2>
        <p class="small soft">
          The others go on. Each is copied again by itself, within seconds, once its cause is gone.
        </p>
      </div>
      {tables.slice(0, shown).map((table) => (
        <SetAside key={`${table.schema}.${table.name}`} {...table} sink={sinkName(entry.connector)} />
      ))}
      {tables.length > shown && (
        <Link to={{ page: "connector", id: entry.connector.id, tab: "tables" }}>
          All {grouped(tables.length)} tables that are set aside
        </Link>
      )}
    </section>
  );
}
