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
