import type { ConnectorTab } from "../../route/route.ts";
import { useTitle } from "../../route/use-title.ts";

export function ConnectorPage({ id, tab }: { readonly id: string; readonly tab: ConnectorTab }) {
  useTitle(id);
  return (
    <h1 class="name">
      {id} {tab}
    </h1>
  );
}
