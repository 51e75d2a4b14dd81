import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { TableStatus } from "../../../../src/connector/table-status.ts";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { useLoaded } from "../../../store/use-loaded.ts";
import { refusedTables } from "../tables/table-order.ts";

const pollMs = 4_000;
const none = { tables: [] as TableStatus[] };

/** Tables for which all others wait. A connector that is well has none, and is not asked; while one streams, a refusal ends the attempt. */
export function useRefusedTables({ connector: { id }, status }: GivenConnector): readonly TableStatus[] {
  const { api } = useConsole();
  const { retry, failed, warning } = status.status;
  const hasFailed = (retry ?? failed) !== undefined;
  const isStuck = hasFailed || (warning !== undefined && status.state.realtime === undefined);
  const { data } = useLoaded(
    async () => (isStuck ? await answer(api.connectors({ connector_id: id }).tables.get()) : none),
    [id, isStuck],
    isStuck ? pollMs : null,
  );
  return isStuck && data ? refusedTables(data.tables) : [];
}
