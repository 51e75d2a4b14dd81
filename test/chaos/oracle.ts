// What has to hold once nothing is wrong any more: both sinks equal the source, and nothing is left over.

import { type ProcessResources, readResources } from "../../bench/measure/process-usage.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import type { PostgresServer } from "../../src/demo/postgres-server.ts";
import { compareTables, describeDifference, isEqual } from "../../src/demo/table-comparison.ts";
import { listTables } from "../../src/demo/table-facts.ts";
import { database, keyedTables } from "./chaos-stage.ts";
import type { TallyReceiver } from "./tally-receiver.ts";

/** What is judged. */
export interface JudgedStage {
  readonly source: PostgresServer;
  readonly sink: PostgresServer;
  /** At the sink: each has all tables of the source. */
  readonly sinkDatabases: readonly string[];
  readonly receiver: TallyReceiver;
  readonly api: ApiClient;
  readonly connectorIds: readonly string[];
  /** Of the service. */
  readonly pids: readonly number[];
}

const equalMs = 60_000;
/** A difference that lasts for so long is mended as the status says, if it says so: that is the operator's part. */
const mendAfterMs = 5_000;
/** What may be more than at the beginning: sessions that rest for a second, files of the state, and what a collector has not come to yet. */
const moreDescriptors = 40;
const moreResidentBytes = 300_000_000;

/** A last row goes to both sinks. Returns the milliseconds until it was there. */
export async function passMarker(stage: JudgedStage, marker: string, boundMs: number): Promise<number> {
  const beganAt = performance.now();
  await stage.source.query(`insert into markers values ('${marker}')`, database);
  const options = { timeoutMs: boundMs, intervalMs: 50 };
  for (const name of stage.sinkDatabases)
    await pollUntil(
      `the marker is in ${name} at the Postgres sink`,
      async () => {
        const query = `select from markers where id = '${marker}'`;
        return (await stage.sink.query(query, name).catch(() => [])).length === 1;
      },
      options,
    );
  await pollUntil(
    "the marker is at the receiver",
    () => stage.receiver.rows("markers", ["id"]).has(marker),
    options,
  );
  return performance.now() - beganAt;
}

/** The source is quiet. Throws with what differs; returns the tables of which a task was made because a status asked for it. */
export async function expectEqual(stage: JudgedStage): Promise<readonly string[]> {
  let difference: string | null = null;
  let mended: readonly string[] | null = null;
  const beganAt = performance.now();
  const isSame = async () => {
    difference = (await postgresDifference(stage)) ?? (await webhookDifference(stage));
    if (difference !== null && performance.now() - beganAt > mendAfterMs) mended ??= await mendAsTold(stage);
    return difference === null;
  };
  await pollUntil("the sinks equal the source", isSame, { timeoutMs: equalMs, intervalMs: 200 }).catch(
    (error: unknown) => {
      throw new Error(`${(error as Error).message}\n${difference}`);
    },
  );
  if (stage.receiver.contradictions.length > 0) throw new Error(stage.receiver.contradictions.join("\n"));
  return mended ?? [];
}

/** Makes the tasks that a status asks for: what no change event tells, such as a rewrite, is told there. */
async function mendAsTold({ api, connectorIds }: JudgedStage): Promise<readonly string[]> {
  const made: string[] = [];
  for (const id of connectorIds) {
    const told = JSON.stringify(await api.call("GET", `/api/v1/connectors/${id}`));
    for (const [, name] of told.matchAll(/Table public\.(\w+): [^"]*?Create a Snapshot task/g)) {
      const spec = { schema: "public", name, truncate: true };
      await api.call("POST", `/api/v1/connectors/${id}/tasks`, { Snapshot: spec });
      made.push(`${id}: ${name}`);
    }
  }
  return made;
}

export function describeMended(mended: readonly string[]): string {
  return mended.length === 0 ? "" : `, mended as told (${mended.join(", ")})`;
}

async function postgresDifference({ source, sink, sinkDatabases }: JudgedStage): Promise<string | null> {
  for (const name of sinkDatabases) {
    const difference = await databaseDifference(source, sink, name);
    if (difference !== null) return `${name}: ${difference}`;
  }
  return null;
}

async function databaseDifference(
  source: PostgresServer,
  sink: PostgresServer,
  name: string,
): Promise<string | null> {
  await using ours = await source.connect(database);
  await using theirs = await sink.connect(name);
  const tables = (await listTables(ours)).filter(({ name }) => !name.startsWith("parts_"));
  // A column that the sink has not yet is a difference too.
  const differences = await compareTables(ours, theirs, tables).catch((error: Error) => error);
  if (differences instanceof Error) return differences.message;
  return differences.every(isEqual)
    ? null
    : differences
        .filter((d) => !isEqual(d))
        .map(describeDifference)
        .join("\n");
}

async function webhookDifference({ source, receiver }: JudgedStage): Promise<string | null> {
  for (const [table, columns] of Object.entries(keyedTables)) {
    const listed = columns.map((column) => (column === "n" ? "n::text" : column)).join(", ");
    const rows = await source.query<{ id: string; row: unknown[] }>(
      `select id::text, json_build_array(${listed}) as row from ${table}`,
      database,
    );
    const held = receiver.rows(table, columns);
    const there = new Map(rows.map(({ id, row }) => [id, JSON.stringify(row)]));
    const missing = [...there].filter(([id, row]) => held.get(id) !== row);
    const extra = [...held].filter(([id]) => !there.has(id));
    if (missing.length > 0 || extra.length > 0) {
      const examples = missing
        .slice(0, 3)
        .map(([id, row]) => `${row.slice(0, 200)} is ${held.get(id)?.slice(0, 200)}`);
      const more = extra.slice(0, 3).map(([, row]) => `${row.slice(0, 200)} is not at the source`);
      return `webhook ${table}: ${missing.length} missing or other, ${extra.length} too many\n${[...examples, ...more].join("\n")}`;
    }
  }
  return null;
}

/** Of copies that nothing is recorded of. A copy that was interrupted is kept for a while for the next task. */
const leftTables = `
select relname from pg_class c where relnamespace = to_regnamespace('millrace') and relkind = 'r' and relname ~ '^(copy|chunk|touched|seen|model)_'
  and not exists (select from millrace.divided_copy d where c.relname ~ ('^[a-z]+_' || d.connector_id || '_' || d.table_id || '(_[0-9]+)?$'))`;

/** Slots are as without all that, and what the service holds is back to about what it was. Returns that. */
export async function expectNothingLeft(
  stage: JudgedStage,
  before: ProcessResources,
): Promise<ProcessResources> {
  const slots = () =>
    stage.source.query<{ slot_name: string }>("select slot_name from pg_replication_slots order by 1");
  const options = { timeoutMs: 30_000, intervalMs: 200 };
  await pollUntil(
    "no slot is left over",
    async () => (await slots()).length === stage.connectorIds.length,
    options,
  );
  const tables = async () =>
    (await Promise.all(stage.sinkDatabases.map((name) => stage.sink.query(leftTables, name)))).flat();
  await pollUntil("no copy's tables are left over", async () => (await tables()).length === 0, options);
  let resources = readServiceResources(stage);
  const isBack = () => {
    resources = readServiceResources(stage);
    return (
      resources.descriptors <= before.descriptors + moreDescriptors &&
      resources.residentBytes <= before.residentBytes + moreResidentBytes
    );
  };
  await pollUntil("descriptors and memory are let go", isBack, options).catch((error: unknown) => {
    throw new Error(
      `${(error as Error).message}: ${describeResources(before)} before, ${describeResources(resources)} now`,
    );
  });
  return resources;
}

/** The most that a process of the service has. */
export function readServiceResources({ pids }: JudgedStage): ProcessResources {
  const all = pids.map((pid) => readResources(pid));
  return {
    descriptors: Math.max(...all.map(({ descriptors }) => descriptors)),
    residentBytes: Math.max(...all.map(({ residentBytes }) => residentBytes)),
  };
}

export function describeResources({ descriptors, residentBytes }: ProcessResources): string {
  return `${descriptors} descriptors and ${Math.round(residentBytes / 1e6)} MB`;
}
