// `bun run chaos`: rounds of random load under random faults, until one breaks a law or the rounds are over. `--rounds 500`, `--seed N`
// for the same faults again, `--from 42` to begin at that round of it, `--only kill` for those whose name holds a word. A round that fails says what was wrong, and the service's log.

import { parseArgs } from "node:util";
import { ChaosStage, database } from "./chaos-stage.ts";
import { type Fault, faults } from "./faults.ts";
import { beginLoad, type Random, trimming } from "./load.ts";
import {
  describeResources,
  expectEqual,
  expectNothingLeft,
  passMarker,
  readServiceResources,
} from "./oracle.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    from: { type: "string", default: "1" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    only: { type: "string", default: "" },
  },
});
const rounds = Number(values.rounds);
const seed = Number(values.seed);
/** From when the last fault is over until what is written then is at both sinks. */
const recoveryGoalMs = 10_000;
const recoveryBoundMs = 120_000;

/** mulberry32: small, and the same everywhere. */
function seeded(from: number): Random {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Tally {
  readonly recoveries: number[];
  readonly counts: Map<string, number>;
  transactions: number;
  /** Tables of which a status asked for a task. */
  mended: number;
  equalRounds: number;
}

async function playRound(stage: ChaosStage, round: number, tally: Tally): Promise<void> {
  const random = seeded(seed + round * 7_919);
  const load = beginLoad(stage, 2, random);
  const chosen = chooseFaults(random);
  process.stdout.write(`round ${round}: ${chosen.map(({ name }) => name).join(" + ")} … `);
  await Bun.sleep(300);
  for (const { name, run } of chosen) {
    tally.counts.set(name, (tally.counts.get(name) ?? 0) + 1);
    await run(stage, random);
  }
  const recovery = await passMarker(stage, `r${round}`, recoveryBoundMs);
  tally.recoveries.push(recovery);
  await load.stop();
  tally.transactions += load.transactions;
  const mended = await expectEqual(stage);
  tally.mended += mended;
  const resources = await expectNothingLeft(stage, atBeginning);
  for (const sql of trimming) await stage.source.query(sql, database);
  tally.equalRounds++;
  console.log(
    `equal${mended === 0 ? "" : ", mended as told"}; recovered in ${(recovery / 1000).toFixed(1)} s, ${load.transactions} transactions, ${describeResources(resources)}`,
  );
}

/** One, two or three, one after the other. */
function chooseFaults(random: Random): Fault[] {
  const among = faults.filter(({ name }) => name.includes(values.only));
  return Array.from({ length: 1 + Math.floor(random() * 3) }, () => chooseOne(among, random));
}

function chooseOne(among: readonly Fault[], random: Random): Fault {
  const total = among.reduce((sum, { weight = 1 }) => sum + weight, 0);
  let at = random() * total;
  for (const fault of among) {
    at -= fault.weight ?? 1;
    if (at < 0) return fault;
  }
  throw new Error(`no fault has ${values.only} in its name`);
}

const stage = await ChaosStage.setUp();
const tally: Tally = { recoveries: [], counts: new Map(), transactions: 0, mended: 0, equalRounds: 0 };
let failure: unknown = null;
console.log(`seed ${seed}; ${faults.length} faults, ${stage.disk ? "with" : "without"} a disk to fill`);
await passMarker(stage, "beginning", recoveryBoundMs);
const atBeginning = readServiceResources(stage);
console.log(`at the beginning: ${describeResources(atBeginning)}`);
for (let round = Number(values.from); round <= rounds && failure === null; round++) {
  try {
    await playRound(stage, round, tally);
  } catch (error) {
    failure = error;
    console.log(
      `\nround ${round} of seed ${seed} has failed: ${error instanceof Error ? error.message : error}`,
    );
    const { connectors } = await stage.api
      .call<{ connectors: unknown[] }>("GET", "/api/v1/connectors")
      .catch(() => ({
        connectors: ["the service does not answer"],
      }));
    for (const connector of connectors)
      console.log(JSON.stringify((connector as { status?: unknown }).status ?? connector));
    console.log(stage.service.log);
  }
}
report(tally);
await stage[Symbol.asyncDispose]();
process.exit(failure === null ? 0 : 1);

function report({ recoveries, counts, transactions, mended, equalRounds }: Tally): void {
  const sorted = recoveries.toSorted((a, b) => a - b);
  const at = (share: number) => ((sorted[Math.floor((sorted.length - 1) * share)] ?? 0) / 1000).toFixed(1);
  const late = recoveries.filter((ms) => ms > recoveryGoalMs).length;
  console.log(
    `\n${equalRounds} rounds ended equal, with nothing left over: ${[...counts.values()].reduce((a, b) => a + b, 0)} faults of ${counts.size} kinds, ` +
      `${transactions.toLocaleString("en-US")} transactions, ${mended} tables mended as the status asked.\n` +
      `Recovery: half within ${at(0.5)} s, 95 of 100 within ${at(0.95)} s, all within ${at(1)} s; ${late} later than ${recoveryGoalMs / 1000} s.`,
  );
  for (const [name, count] of [...counts].sort()) console.log(`${String(count).padStart(5)}  ${name}`);
}
