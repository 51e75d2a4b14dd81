// What has to hold once nothing is wrong any more: both sinks equal the source, and nothing is left over.

import { readdirSync, readFileSync } from "node:fs";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { compareTables, describeDifference, isEqual } from "../../src/demo/table-comparison.ts";
import { listTables } from "../../src/demo/table-facts.ts";
import { type ChaosStage, connectorIds, database, keyedTables } from "./chaos-stage.ts";

const equalMs = 60_000;
/** The most that either may come to; one connector each takes far less. */
const maxDescriptors = 400;
const maxResidentBytes = 1_000_000_000;

/** A last row goes to both sinks. Returns the milliseconds until it was there. */
export async function passMarker(stage: ChaosStage, marker: string, boundMs: number): Promise<number> {
  const beganAt = performance.now();
  await stage.source.query(`insert into markers values ('${marker}')`, database);
  const options = { timeoutMs: boundMs, intervalMs: 50 };
  await pollUntil(
    "the marker is at the Postgres sink",
    async () => {
      const query = `select from markers where id = '${marker}'`;
      return (await stage.sink.query(query, database).catch(() => [])).length === 1;
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

/** The source is quiet. Throws with what differs. */
export async function expectEqual(stage: ChaosStage): Promise<void> {
  let difference: string | null = null;
  const isSame = async () => {
    difference = (await postgresDifference(stage)) ?? (await webhookDifference(stage));
    return difference === null;
  };
  await pollUntil("the sinks equal the source", isSame, { timeoutMs: equalMs, intervalMs: 200 }).catch(
    (error: unknown) => {
      throw new Error(`${(error as Error).message}\n${difference}`);
    },
  );
  if (stage.receiver.contradictions.length > 0) throw new Error(stage.receiver.contradictions.join("\n"));
}

async function postgresDifference({ source, sink }: ChaosStage): Promise<string | null> {
  await using ours = await source.connect(database);
  await using theirs = await sink.connect(database);
  const tables = (await listTables(ours)).filter(({ name }) => !name.startsWith("parts_"));
  const differences = await compareTables(ours, theirs, tables);
  return differences.every(isEqual)
    ? null
    : differences
        .filter((d) => !isEqual(d))
        .map(describeDifference)
        .join("\n");
}

async function webhookDifference({ source, receiver }: ChaosStage): Promise<string | null> {
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

/** Slots, sessions, descriptors, memory and tasks are as without all that. */
export async function expectNothingLeft(stage: ChaosStage): Promise<void> {
  const slots = () =>
    stage.source.query<{ slot_name: string }>("select slot_name from pg_replication_slots order by 1");
  await pollUntil("no slot is left over", async () => (await slots()).length === connectorIds.length, {
    ...{ timeoutMs: 30_000, intervalMs: 200 },
  });
  const { pid = 0 } = stage.service;
  const descriptors = readdirSync(`/proc/${pid}/fd`).length;
  if (descriptors > maxDescriptors) throw new Error(`the service has ${descriptors} descriptors open`);
  const resident = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  if (resident > maxResidentBytes) throw new Error(`the service holds ${resident} bytes of memory`);
}
