// `bun run bench:resume` measures what Resume costs after a lost slot, and what ReInitialize costs in its place. Both alternate on the same servers,
// and the same number of rows has changed before each.

import { Command } from "commander";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { wholeNumberFrom } from "../../test/support/program/whole-number.ts";
import { BenchServers, database } from "../bench-servers.ts";
import { insertRange } from "../bench-tables.ts";
import { describeMachine, median } from "../measure/report.ts";
import { type Cost, connectorId, costOf, poll, startStreaming } from "./streaming-service.ts";

interface ResumeOptions {
  readonly rows: number;
  readonly rounds: number;
}

const commands = ["Resume", "ReInitialize"] as const;

const options = new Command("bench:resume")
  .description(
    "Measures Resume and ReInitialize after a lost slot, where 1 % of a table's rows have changed.",
  )
  .option("--rows <number>", "rows of the table", wholeNumberFrom(1), 5_000_000)
  .option("--rounds <number>", "how often each is measured; the median counts", wholeNumberFrom(1), 3)
  .parse()
  .opts<ResumeOptions>();

await run(options);
process.exit();

async function run({ rows, rounds }: ResumeOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const servers = stack.use(await BenchServers.start());
  await servers.recreate();
  await servers.source.query(insertRange("1", String(rows)), database);
  const api = await startStreaming(servers, stack);
  console.log(`${describeMachine()}, PostgreSQL ${await servers.version()}, ${rows} rows`);
  const costs = { Resume: [] as Cost[], ReInitialize: [] as Cost[] };
  for (let round = 0; round < rounds * 2; round++) {
    const command = commands[(round + (round >> 1)) % 2]!;
    await loseSlot(servers, api, rows, round);
    const cost = await costOf(servers, async () => {
      await api.command(connectorId, command);
      if (command === "Resume") await pollUntil("the comparison", () => isInState(api, "Resuming"), poll);
      await pollUntil("equal tables", () => isInState(api, "Streaming"), poll);
    });
    costs[command].push(cost);
    console.log(`  ${command}: ${describe(cost)}`);
  }
  const [resume, copy] = [mediansOf(costs.Resume), mediansOf(costs.ReInitialize)];
  console.log(`Resume: ${describe(resume)}\nReInitialize: ${describe(copy)}`);
  const ratio = (figure: keyof Cost) => (resume[figure] / copy[figure]).toFixed(2);
  console.log(
    `ratio: time ${ratio("seconds")}, servers' CPU ${ratio("cpuSeconds")}, the sink's log ${ratio("sinkWalBytes")}`,
  );
}

/** 1 % of the rows, here and there: a half is updated, a quarter deleted, and as many are new. */
async function loseSlot(servers: BenchServers, api: ApiClient, rows: number, round: number): Promise<void> {
  const { source, sink } = servers;
  await api.command(connectorId, "Stop");
  const isStopped = async () => (await api.connector(connectorId)).status.state.shutdown !== undefined;
  await pollUntil("the stop", isStopped, poll);
  await source.query(`update bench set number = number + 1 where id % 200 = ${round}`, database);
  await source.query(`delete from bench where id % 400 = ${round + 100}`, database);
  const from = rows * (round + 1) + 1;
  await source.query(insertRange(String(from), String(from + rows / 400 - 1)), database);
  await source.query("select pg_drop_replication_slot(slot_name) from pg_replication_slots", database);
  for (const server of [source, sink])
    for (const sql of ["vacuum analyze bench", "checkpoint"]) await server.query(sql, database);
}

async function isInState(api: ApiClient, wanted: string): Promise<boolean> {
  if ((await api.connector(connectorId)).status.state.realtime === undefined) return false;
  const { tables } = await api.call<{ tables: readonly { name: string; state: string }[] }>(
    "GET",
    `/api/v1/connectors/${connectorId}/tables`,
  );
  return tables.some(({ name, state }) => name === "bench" && state === wanted);
}

function mediansOf(costs: readonly Cost[]): Cost {
  const of = (figure: keyof Cost) => median(costs.map((cost) => cost[figure]));
  return { seconds: of("seconds"), cpuSeconds: of("cpuSeconds"), sinkWalBytes: of("sinkWalBytes") };
}

function describe({ seconds, cpuSeconds, sinkWalBytes }: Cost): string {
  return `${seconds.toFixed(1)} s, servers' CPU ${cpuSeconds.toFixed(1)} s, the sink's log ${Math.round(sinkWalBytes / 1e6)} MB`;
}
