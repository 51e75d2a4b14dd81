// `bun run bounds:replicas` measures over processes what docs/replicas.md promises: how soon a command takes effect at another replica than the
// one that was asked, and how soon that one shows the status.

import { Command } from "commander";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { ownCommand } from "../../src/demo/service-process.ts";
import { wholeNumberFrom } from "../../test/support/program/whole-number.ts";
import { percentile } from "../measure/latency.ts";
import { RealConnectors } from "./real-connectors.ts";
import { type BenchReplica, ReplicaBench } from "./replica-bench.ts";
import { StatusLog } from "./status-log.ts";

const options = new Command("bounds:replicas")
  .description("Measures how soon replicas follow each other.")
  .option("--replicas <number>", "replicas", wholeNumberFrom(1), 2)
  .option("--connectors <number>", "connectors", wholeNumberFrom(1), 4)
  .option("--rounds <number>", "how often each figure is measured", wholeNumberFrom(1), 30)
  .parse()
  .opts<{ replicas: number; connectors: number; rounds: number }>();

interface Bound {
  readonly what: string;
  readonly boundMs: number;
  readonly takenMs: number[];
}

const begins: Bound = {
  what: "A Start through one replica, until the run begins at another",
  boundMs: 100,
  takenMs: [],
};
const showsStream: Bound = {
  what: "From streaming at one replica, until another shows it",
  boundMs: 1_000,
  takenMs: [],
};
const showsStop: Bound = {
  what: "From stopped at one replica, until another shows it",
  boundMs: 1_000,
  takenMs: [],
};

/** Since 1970, as logs have it. */
const now = () => performance.timeOrigin + performance.now();
const poll = { timeoutMs: 60_000, intervalMs: 5 };

async function untilShown({ api }: BenchReplica, id: string, state: string): Promise<number> {
  await pollUntil(`${id}: ${state}`, async () => state in (await api.connector(id)).status.state, poll);
  return now();
}

async function measure(log: StatusLog, asked: BenchReplica, id: string): Promise<void> {
  const stopped = log.next(id, "shutdown");
  await asked.api.command(id, "Stop");
  const shownStopped = await untilShown(asked, id, "shutdown");
  showsStop.takenMs.push(shownStopped - (await stopped));
  // At any moment of the half second in which reports are written and read.
  await Bun.sleep(500 + Math.random() * 500);
  const [begun, streams] = [log.next(id, "start"), log.next(id, "realtime")];
  const sentAt = now();
  await asked.api.command(id, "Start");
  begins.takenMs.push((await begun) - sentAt);
  const shown = await untilShown(asked, id, "realtime");
  showsStream.takenMs.push(shown - (await streams));
  await Bun.sleep(Math.random() * 500);
}

function row({ what, boundMs, takenMs }: Bound): string {
  const sorted = [...takenMs].sort((a, b) => a - b);
  const figures = [percentile(sorted, 0.5), percentile(sorted, 0.9), sorted.at(-1) ?? Number.NaN, boundMs];
  return `| ${what} | ${figures.map((ms) => `${ms.toFixed(0)} ms`).join(" | ")} |`;
}

const log = new StatusLog();
await using real = await RealConnectors.start(options.connectors);
await using bench = await ReplicaBench.start(ownCommand(), options.replicas, log.read);
await bench.create(real.connectors);
const holders = await bench.holders();
for (let round = 0; round < options.rounds; round++) {
  const { id } = real.connectors[round % real.connectors.length]!;
  const others = bench.replicas.filter(({ name }) => name !== holders.get(id));
  await measure(log, others[round % others.length]!, id);
}
const bounds = [begins, showsStream, showsStop];
console.log(["| | p50 | p90 | most | bound |", "|---|---:|---:|---:|---:|", ...bounds.map(row)].join("\n"));
process.exitCode = bounds.every(({ boundMs, takenMs }) => Math.max(...takenMs) < boundMs) ? 0 : 1;
