// Copies of single tables that a warning asks for, as commands instead of requests of the API. Pure.

export interface SnapshotRemedy {
  /** Without the requests. */
  readonly reason: string;
  readonly commands: readonly string[];
}

/** As a run words it: `POST …/tasks {"Snapshot":{…}}`. */
const request = /: POST …\/tasks (\{"Snapshot":\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}\})/g;

export function snapshotRemedy(connectorId: string, reason: string): SnapshotRemedy {
  const commands = [...reason.matchAll(request)].flatMap(([, json = ""]) => commandOf(connectorId, json));
  return { reason: reason.replace(request, "."), commands };
}

/** Without the warnings whose remedy is a copy of one of these tables, which are copied again by themselves. */
export function withoutCopiesOf(
  tables: readonly { readonly schema: string; readonly name: string }[],
  reason: string,
): string {
  const isOne = ({ schema, name }: Snapshot) =>
    tables.some((table) => table.schema === schema && table.name === name);
  let rest = reason;
  for (const [told, json = ""] of reason.matchAll(request)) {
    const { Snapshot } = JSON.parse(json) as { Snapshot: Snapshot };
    const end = rest.indexOf(told);
    const begin = rest.lastIndexOf(`Table ${identifier(String(Snapshot.schema))}.`, end);
    if (isOne(Snapshot) && begin >= 0) rest = rest.slice(0, begin) + rest.slice(end + told.length);
  }
  return rest;
}

function commandOf(connectorId: string, json: string): string[] {
  const { schema, name, truncate } = (JSON.parse(json) as { Snapshot: Snapshot }).Snapshot;
  if (typeof schema !== "string" || typeof name !== "string") return [];
  const table = forShell(`${identifier(schema)}.${identifier(name)}`);
  return [`millrace tasks snapshot ${connectorId} ${table}${truncate === true ? " --truncate" : ""}`];
}

interface Snapshot {
  readonly schema?: unknown;
  readonly name?: unknown;
  readonly truncate?: unknown;
}

function identifier(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** For POSIX shells. */
function forShell(text: string): string {
  return /^[A-Za-z0-9_.]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
