// Rounds of random load under random faults of several replicas over one state, until one breaks a law or the rounds are over.

import type { ProcessResources } from "../../../bench/measure/process-usage.ts";
import { database } from "../chaos-stage.ts";
import { beginLoad, trimming } from "../load.ts";
import {
  describeMended,
  describeResources,
  expectEqual,
  expectNothingLeft,
  passMarker,
  readServiceResources,
} from "../oracle.ts";
import { chooseFaults, countOne, describeCounts, secondsAt, seeded } from "../random.ts";
import { type ChaosOptions, playRounds, recoveryBoundMs, Tally } from "../rounds.ts";
import { fakeTimeLibrary } from "./chaos-replica.ts";
import { beginCommands } from "./commands.ts";
import { expectOneHolderEach, readLeases } from "./holders.ts";
import { ReplicaChaosStage } from "./replica-chaos-stage.ts";
import { faultsOf } from "./replica-faults.ts";

export interface ReplicaChaosOptions extends ChaosOptions {
  readonly replicas: number;
  readonly hasKafka: boolean;
}

class ReplicaTally extends Tally {
  commands = 0;
}

/** Of the rounds that have commands. */
const commandedShare = 0.35;
/** The default lease is 6 s. */
const takeoverGoalSeconds = { half: 7, most: 10 };

/** Returns whether all went well. */
export async function playReplicaRounds(options: ReplicaChaosOptions): Promise<boolean> {
  await using stage = await ReplicaChaosStage.setUp({ ...options, random: seeded(options.seed) });
  const tally = new ReplicaTally();
  describeStage(stage, options);
  await passMarker(stage, "beginning", recoveryBoundMs);
  await stage.beginRecord();
  const before = readServiceResources(stage);
  console.log(`at the beginning: ${describeResources(before)}`);
  const isWell = await playRounds(options, {
    play: (round) => playRound(stage, round, options, before, tally),
    describeFailure: () => describeFailure(stage),
  });
  report(stage, tally);
  return isWell;
}

async function playRound(
  stage: ReplicaChaosStage,
  round: number,
  { seed, only }: ReplicaChaosOptions,
  before: ProcessResources,
  tally: ReplicaTally,
): Promise<void> {
  const random = seeded(seed + round * 7_919);
  // What is chosen must not depend on how far the load has come.
  const chosen = chooseFaults(faultsOf(stage), only, random);
  const hasCommands = random() < commandedShare;
  const load = beginLoad(stage, 2, seeded(seed - round));
  const kafkaLoad = stage.kafka?.load();
  const commands = hasCommands ? beginCommands(stage, seeded(seed + round)) : null;
  process.stdout.write(
    `round ${round}: ${chosen.map(({ name }) => name).join(" + ")}${commands ? " + commands" : ""} … `,
  );
  await Bun.sleep(300);
  for (const { name, run } of chosen) {
    countOne(tally.counts, name);
    await run(stage, random);
  }
  await commands?.stop();
  const recovery = await passMarker(stage, `r${round}`, recoveryBoundMs);
  tally.recoveries.push(recovery);
  await load.stop();
  await kafkaLoad?.[Symbol.asyncDispose]();
  tally.transactions += load.transactions + (kafkaLoad?.transactions ?? 0);
  tally.commands += commands?.count ?? 0;
  const mended = await judge(stage, before);
  tally.mended += mended.length;
  for (const sql of trimming) await stage.source.query(sql, database);
  tally.equalRounds++;
  console.log(
    `equal${describeMended(mended)}; recovered in ${(recovery / 1000).toFixed(1)} s, ${load.transactions} transactions`,
  );
}

/** Throws what is wrong. Returns the tables of which a task was made because a status asked for it. */
async function judge(stage: ReplicaChaosStage, before: ProcessResources): Promise<readonly string[]> {
  await expectOneHolderEach(stage);
  const mended = await expectEqual(stage);
  await stage.record.expectInOrder();
  await stage.kafka?.expectExactlyOnce();
  await expectNothingLeft(stage, before);
  return mended;
}

function describeStage(stage: ReplicaChaosStage, { seed, replicas }: ReplicaChaosOptions): void {
  console.log(`seed ${seed}; ${replicas} replicas, ${faultsOf(stage).length} faults`);
  if (!stage.isIsolated)
    console.log(
      "without a mount namespace for each replica (it takes root): none is cut off from sources and sinks alone",
    );
  if (!fakeTimeLibrary) console.log("without libfaketime (apt-get install faketime): no clock jumps");
  if (!stage.kafka) console.log("without a broker: --kafka");
}

async function describeFailure(stage: ReplicaChaosStage): Promise<void> {
  console.log(JSON.stringify(await readLeases(stage).catch((error: Error) => `the state: ${error.message}`)));
  for (const { name, api, service } of stage.replicas) {
    const { connectors } = await api
      .call<{ connectors: { status?: unknown }[] }>("GET", "/api/v1/connectors")
      .catch(() => ({ connectors: [{ status: "it does not answer" }] }));
    console.log(`${name}: ${JSON.stringify(connectors.map(({ status }) => status))}\n${service.log}`);
  }
}

function report(
  { takeovers, record, kafka }: ReplicaChaosStage,
  { recoveries, counts, faults, commands, mended, equalRounds }: ReplicaTally,
): void {
  const { half, most } = takeoverGoalSeconds;
  console.log(
    `\n${equalRounds} rounds ended equal, each connector at one replica, and with nothing left over: ${faults}, ${commands} commands, ` +
      `${mended} tables mended as the status asked.\n` +
      `Checkpoints moved ${record.moves.toLocaleString("en-US")} times, none under a term below one that was there before; ` +
      `${record.late} by a holder whose lease had been given to the next one, before that one began at the sink.\n` +
      `${kafka ? `The broker holds each change once: ${kafka.messages.toLocaleString("en-US")} messages.\n` : ""}` +
      `Recovery: half within ${secondsAt(0.5, recoveries)} s, all within ${secondsAt(1, recoveries)} s.\n` +
      `${takeovers.length} take-overs, from the death of the holder to new rows at the sink: half within ${secondsAt(0.5, takeovers)} s ` +
      `(goal ${half}), 99 of 100 within ${secondsAt(0.99, takeovers)} s (goal ${most}), all within ${secondsAt(1, takeovers)} s.`,
  );
  console.log(describeCounts(counts));
}
