// `bun run bench:verify` measures how long a comparison of a large table takes, beside the plain query that anybody could ask both servers for: a
// count, and a sum of hashes. Both alternate on the same servers, so that only their ratio counts.

import { Command } from "commander";
import type { Task, TaskRequest } from "../../src/connector/task.ts";
import type { VerifyResult } from "../../src/connector/verification.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { wholeNumberFrom } from "../../test/support/program/whole-number.ts";
import { BenchServers, database } from "../bench-servers.ts";
import { insertRange } from "../bench-tables.ts";
import { describeMachine, median } from "../measure/report.ts";
import { type Cost, connectorId, costOf, poll, startStreaming } from "./streaming-service.ts";

interface VerifyOptions {
  readonly rows: number;
  readonly rounds: number;
  /** Of a million rows. */
  readonly differing: number;
}

const plain = "select count(*), sum(hashtext(t::text)) from bench t";

const options = new Command("bench:verify")
  .description("Measures the comparison of a table with its source, beside a plain query on both servers.")
  .option("--rows <number>", "rows of the table", wholeNumberFrom(1), 5_000_000)
  .option("--rounds <number>", "how often each is measured; the median counts", wholeNumberFrom(1), 5)
  .option(
    "--differing <number>",
    "rows of a million that differ at the sink, in the second measurement",
    wholeNumberFrom(0),
    100,
  )
  .parse()
  .opts<VerifyOptions>();

await run(options);
process.exit();

async function run({ rows, rounds, differing }: VerifyOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const servers = stack.use(await BenchServers.start());
  await servers.recreate();
  await servers.source.query(insertRange("1", String(rows)), database);
  await servers.source.query("vacuum analyze bench", database);
  const api = await startStreaming(servers, stack);
  await servers.sink.query("vacuum analyze bench", database);
  console.log(`${describeMachine()}, PostgreSQL ${await servers.version()}, ${rows} rows`);
  await alternate(servers, api, rounds, "nothing differs");
  await servers.sink.query(
    `update bench set label = 'damaged' where id % ${Math.round(1_000_000 / differing)} = 0`,
    database,
  );
  await servers.sink.query("vacuum bench", database);
  await alternate(servers, api, rounds, `${differing / 10_000} % differ`);
}

async function alternate(servers: BenchServers, api: ApiClient, rounds: number, what: string): Promise<void> {
  const [queries, comparisons]: [Cost[], Cost[]] = [[], []];
  let found: VerifyResult | undefined;
  const ofQuery = async () => {
    queries.push(await costOf(servers, async () => void (await plainAtBoth(servers))));
  };
  const ofComparison = async () => {
    comparisons.push(
      await costOf(servers, async () => {
        found = await compare(api);
      }),
    );
  };
  for (let round = 0; round < rounds; round++) {
    for (const measure of round % 2 === 0 ? [ofQuery, ofComparison] : [ofComparison, ofQuery])
      await measure();
  }
  const counted = `${found?.missing} missing, ${found?.extra} extra, ${found?.changed} changed`;
  console.log(`${what} (${counted})`);
  for (const figure of ["seconds", "cpuSeconds"] as const) {
    const ratios = comparisons.map((cost, i) => cost[figure] / queries[i]![figure]);
    const [query, comparison] = [queries, comparisons].map((costs) =>
      median(costs.map((cost) => cost[figure])),
    );
    console.log(
      `  ${figure === "seconds" ? "time" : "servers' CPU"}: query ${query!.toFixed(2)} s, comparison ${comparison!.toFixed(2)} s, ` +
        `ratio ${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(", ")})`,
    );
  }
}

async function plainAtBoth({ source, sink }: BenchServers): Promise<void> {
  for (const server of [source, sink]) await server.query(plain, database);
}

async function compare(api: ApiClient): Promise<VerifyResult> {
  const request: TaskRequest = { Verify: { schema: "public", name: "bench" } };
  const path = `/api/v1/connectors/${connectorId}/tasks`;
  const { id } = await api.call<Task>("POST", path, request);
  const ended = await pollUntil(
    "the comparison",
    async () => {
      const task = await api.call<Task>("GET", `${path}/${id}`);
      return task.state === "Done" || task.state === "Failed" ? task : null;
    },
    poll,
  );
  if (!ended.result) throw new Error(`the comparison has failed: ${ended.reason}`);
  return ended.result as VerifyResult;
}
