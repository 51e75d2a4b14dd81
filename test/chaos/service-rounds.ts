// Rounds of random load under random faults of one service and of what is around it, until one breaks a law or the rounds are over.

import type { ProcessResources } from "../../bench/measure/process-usage.ts";
import { ChaosStage, database } from "./chaos-stage.ts";
import { faults } from "./faults.ts";
import { beginLoad, trimming } from "./load.ts";
import {
  describeMended,
  describeResources,
  expectEqual,
  expectNothingLeft,
  passMarker,
  readServiceResources,
} from "./oracle.ts";
import { chooseFaults, countOne, describeCounts, secondsAt, seeded } from "./random.ts";
import { type ChaosOptions, playRounds, recoveryBoundMs, Tally } from "./rounds.ts";

/** From when the last fault is over until what is written then is at both sinks. */
const recoveryGoalMs = 10_000;

async function playRound(
  stage: ChaosStage,
  round: number,
  { seed, only }: ChaosOptions,
  before: ProcessResources,
  tally: Tally,
): Promise<void> {
  const random = seeded(seed + round * 7_919);
  const load = beginLoad(stage, 2, random);
  const chosen = chooseFaults(faults, only, random);
  process.stdout.write(`round ${round}: ${chosen.map(({ name }) => name).join(" + ")} … `);
  await Bun.sleep(300);
  for (const { name, run } of chosen) {
    countOne(tally.counts, name);
    await run(stage, random);
  }
  const recovery = await passMarker(stage, `r${round}`, recoveryBoundMs);
  tally.recoveries.push(recovery);
  await load.stop();
  tally.transactions += load.transactions;
  const mended = await expectEqual(stage);
  tally.mended += mended.length;
  const resources = await expectNothingLeft(stage, before);
  for (const sql of trimming) await stage.source.query(sql, database);
  tally.equalRounds++;
  console.log(
    `equal${describeMended(mended)}; recovered in ${(recovery / 1000).toFixed(1)} s, ${load.transactions} transactions, ${describeResources(resources)}`,
  );
}

/** Returns whether all went well. */
export async function playServiceRounds(options: ChaosOptions): Promise<boolean> {
  await using stage = await ChaosStage.setUp();
  const tally = new Tally();
  console.log(
    `seed ${options.seed}; ${faults.length} faults, ${stage.disk ? "with" : "without"} a disk to fill`,
  );
  await passMarker(stage, "beginning", recoveryBoundMs);
  const before = readServiceResources(stage);
  console.log(`at the beginning: ${describeResources(before)}`);
  const isWell = await playRounds(options, {
    play: (round) => playRound(stage, round, options, before, tally),
    describeFailure: () => describeFailure(stage),
  });
  report(tally);
  return isWell;
}

async function describeFailure({ api, service }: ChaosStage): Promise<void> {
  const { connectors } = await api
    .call<{ connectors: unknown[] }>("GET", "/api/v1/connectors")
    .catch(() => ({ connectors: ["the service does not answer"] }));
  for (const connector of connectors)
    console.log(JSON.stringify((connector as { status?: unknown }).status ?? connector));
  console.log(service.log);
}

function report({ recoveries, counts, faults: count, mended, equalRounds }: Tally): void {
  const at = (share: number) => secondsAt(share, recoveries);
  const late = recoveries.filter((ms) => ms > recoveryGoalMs).length;
  console.log(
    `\n${equalRounds} rounds ended equal, with nothing left over: ${count}, ${mended} tables mended as the status asked.\n` +
      `Recovery: half within ${at(0.5)} s, 95 of 100 within ${at(0.95)} s, all within ${at(1)} s; ${late} later than ${recoveryGoalMs / 1000} s.`,
  );
  console.log(describeCounts(counts));
}
