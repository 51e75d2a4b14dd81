// Tables with a history: what the catalog says of them, and what their histories tell.

import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { PipelineRig } from "../pipeline/pipeline-rig.ts";
import { waitFor } from "../wait-for.ts";

/** Everything is included, and these tables of schema public have a history. */
export function withHistory(...names: readonly string[]): Catalog {
  return catalogOf(names.map((name) => ({ name, history_enabled: true })));
}

export function catalogOf(tables: readonly { name: string; history_enabled: boolean }[]): Catalog {
  const listed = tables.map((table) => ({ ...table, action: "Include" as const, columns: [] }));
  return {
    name: "any",
    default_action: "Include",
    schemas: [{ name: "public", action: "Include", tables: listed }],
  };
}

/** Every row of a history, in order, as text: `op v1|v2`, with `~` for null. */
export async function told(rig: PipelineRig, columns: string, history: string): Promise<readonly string[]> {
  const values = columns
    .split(",")
    .map((name) => `coalesce(${name.trim()}::text, '~')`)
    .join(", ");
  const rows = await rig.sink<{ row: string }>(
    `select _sm_op || ' ' || concat_ws('|', ${values}) as row from ${history} order by _sm_lsn, _sm_ordinal`,
  );
  return rows.map(({ row }) => row);
}

/** Waits until the history has as many rows, and returns them as `told` does. */
export async function untilTold(
  rig: PipelineRig,
  columns: string,
  history: string,
  rows: number,
): Promise<readonly string[]> {
  let last: readonly string[] = [];
  let ended: unknown = null;
  void rig.ended().then((failure) => {
    ended = failure;
  });
  const isThere = async () => {
    last = await told(rig, columns, history).catch((error) => (ended === null ? [] : [String(error)]));
    return ended !== null || last.length >= rows;
  };
  await waitFor(`${rows} rows of ${history}`, isThere).catch((error: unknown) => {
    throw new Error(
      `${error}: ${JSON.stringify(last)}; ${Bun.inspect(rig.setAside)} ${rig.warnings.join("; ")}`,
    );
  });
  if (ended !== null) throw ended;
  return last;
}
