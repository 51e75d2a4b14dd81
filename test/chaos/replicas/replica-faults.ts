// What may go wrong of several replicas: each begins, lasts, and is over when its promise resolves.

import { pollUntil } from "../../../src/demo/poll-until.ts";
import { freeze, letGoOn } from "../../support/servers/frozen-server.ts";
import { launched, receiverFaults, serverFaults, untilAnswering, work } from "../faults.ts";
import { between, type Fault, oneOf, type Random, sleepSome } from "../random.ts";
import type { ChaosReplica } from "./chaos-replica.ts";
import { heldBy, holderOf, someHolder } from "./holders.ts";
import { brokerFaults } from "./kafka-part.ts";
import { lineFaults } from "./line-faults.ts";
import type { ReplicaChaosStage } from "./replica-chaos-stage.ts";
import { takeoverTimes } from "./takeovers.ts";

export type ReplicaFault = Fault<ReplicaChaosStage>;

/** Kills it, and measures until others go on with all that it held. */
async function killAndMeasure(stage: ReplicaChaosStage, victim: ChaosReplica): Promise<void> {
  const held = (await heldBy(stage, victim)).filter(({ connectorId }) => connectorId !== "to-kafka");
  const diedAt = Date.now();
  await victim.kill();
  stage.takeovers.push(...(await takeoverTimes(stage, held, diedAt)));
}

const dying: readonly ReplicaFault[] = [
  {
    name: "kill -9 of a holder, until others have taken over",
    weight: 4,
    run: async (stage, random) => {
      const victim = await someHolder(stage, random);
      if (stage.isCommanded) {
        await victim.kill();
        await sleepSome(random, 0, 9_000);
      } else await killAndMeasure(stage, victim);
      await victim.launch();
    },
  },
  {
    name: "kill -9 of a holder, which is back at once",
    weight: 2,
    run: async (stage, random) => {
      const victim = await someHolder(stage, random);
      await victim.kill();
      await sleepSome(random, 0, 1_500);
      await victim.launch();
    },
  },
  {
    name: "kill -9 of the holder of one connector, again and again",
    weight: 3,
    run: async (stage, random) => {
      const id = oneOf(random, stage.connectorIds);
      for (let kills = 0; kills < 3; kills++) {
        const victim = await pollUntil(`a holder of ${id}`, () => holderOf(stage, id), {
          timeoutMs: 60_000,
          intervalMs: 50,
        });
        await victim.kill();
        await sleepSome(random, 0, 1_000);
        await victim.launch();
        // Some die before they have read a row, and some later.
        await sleepSome(random, 0, 3_000);
      }
    },
  },
  {
    name: "kill -9 of all replicas",
    run: async ({ replicas }, random) => {
      await Promise.all(replicas.map((replica) => replica.kill()));
      await sleepSome(random, 0, 3_000);
      await Promise.all(replicas.map((replica) => replica.launch()));
    },
  },
  {
    name: "a replica leaves in order, and comes back",
    weight: 2,
    run: async (stage, random) => {
      const replica = await someHolder(stage, random);
      await replica.leave();
      await sleepSome(random, 0, 3_000);
      await replica.launch();
    },
  },
  {
    name: "one replica after the other is restarted in order",
    run: async ({ replicas }) => {
      for (const replica of [...replicas]) {
        await replica.leave();
        await replica.launch();
      }
    },
  },
  {
    name: "one more replica joins, and leaves",
    weight: 2,
    run: async (stage, random) => {
      const replica = await stage.join();
      await sleepSome(random, 0, 10_000);
      if (random() < 0.5) await replica.leave();
      else await replica.kill();
      await stage.remove(replica);
    },
  },
];

const frozen: readonly ReplicaFault[] = [
  {
    name: "a holder stands still, within its lease",
    run: async (stage, random) =>
      await standStill(await someHolder(stage, random), between(random, 200, 4_000)),
  },
  {
    name: "a holder stands still past its lease, and wakes",
    weight: 4,
    run: async (stage, random) =>
      await standStill(await someHolder(stage, random), between(random, 6_000, 20_000)),
  },
  {
    name: "two holders stand still past their leases, and wake at once",
    run: async (stage, random) => {
      const [a, b] = [await someHolder(stage, random), await someHolder(stage, random)];
      const ms = between(random, 6_000, 15_000);
      await Promise.all([...new Set([a, b])].map((replica) => standStill(replica, ms)));
    },
  },
];

async function standStill(replica: ChaosReplica, ms: number): Promise<void> {
  replica.freeze();
  await Bun.sleep(ms);
  replica.thaw();
}

const states: readonly ReplicaFault[] = [
  ...(["fast", "immediate", "kill"] as const).map((mode) => ({
    name: `the state's server dies (${mode})`,
    run: async ({ state }: ReplicaChaosStage, random: Random) => {
      await state.stop(mode);
      await sleepSome(random, 0, 10_000);
      await launched(state);
    },
  })),
  {
    name: "the state's server is frozen",
    weight: 2,
    run: async ({ state }, random) => {
      await freeze(state);
      await sleepSome(random, 500, 12_000);
      await letGoOn(state);
      await untilAnswering(state);
    },
  },
  {
    name: "backends of the state are ended",
    run: async ({ state }, random) => {
      for (let ends = 0; ends < 3; ends++) {
        await state.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace%'",
        );
        await sleepSome(random, 100, 1_000);
      }
    },
  },
];

const clocks: readonly ReplicaFault[] = [
  {
    name: "a replica's clock jumps",
    weight: 2,
    run: async ({ replicas }, random) => {
      const replica = replicas.find(({ hasClock }) => hasClock);
      for (let jumps = 0; replica && jumps < 3; jumps++) {
        await replica.setClock(between(random, -1, 1) * oneOf(random, [5, 60, 7_200]));
        await sleepSome(random, 1_000, 3_000);
      }
      await replica?.setClock(0);
    },
  },
];

/** What `bun run chaos` plays without replicas too is rarer here. */
const rarely = (among: readonly ReplicaFault[]): ReplicaFault[] =>
  among.map((fault) => ({ ...fault, weight: (fault.weight ?? 1) * 0.25 }));

/** Those that can be played on this stage. */
export function faultsOf(stage: ReplicaChaosStage): readonly ReplicaFault[] {
  const hasClock = stage.replicas.some((replica) => replica.hasClock);
  return [
    ...[...dying, ...frozen, ...states, ...lineFaults(stage.isIsolated), ...(hasClock ? clocks : [])],
    ...(stage.kafka ? brokerFaults : []),
    ...rarely([...serverFaults, ...receiverFaults, ...work]),
  ];
}
