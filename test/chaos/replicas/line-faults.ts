// What may go wrong of one replica's network: its line to the state, its lines to sources and sinks, and both at different times.

import type { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { type Fault, oneOf, type Random, sleepSome } from "../random.ts";
import { type ChaosReplica, lineNames } from "./chaos-replica.ts";
import { someHolder } from "./holders.ts";
import type { ReplicaChaosStage } from "./replica-chaos-stage.ts";

type LineFault = Fault<ReplicaChaosStage>;

const longestMs = 12_000;

/** How a line fails, for as long as `during` lasts. */
const failures: Readonly<Record<string, (line: TcpProxy, during: () => Promise<void>) => Promise<void>>> = {
  "is refused": async (line, during) => {
    line.refuse(true);
    line.cut();
    await during();
    line.refuse(false);
  },
  // What was sent meanwhile arrives afterwards.
  stalls: async (line, during) => {
    line.stall();
    await during();
    line.resume();
  },
  "goes nowhere": async (line, during) => {
    line.strand();
    line.refuse(true);
    await during();
    line.refuse(false);
    line.cut();
  },
};

function failing(
  what: string,
  linesOf: (replica: ChaosReplica, random: Random) => readonly TcpProxy[],
  weight = 1,
): LineFault[] {
  return Object.entries(failures).map(([how, fail]) => ({
    name: `${what} ${how}`,
    weight,
    run: async (stage, random) => {
      const lines = linesOf(await someHolder(stage, random), random);
      const over = sleepSome(random, 300, longestMs);
      await Promise.all(lines.map((line) => fail(line, () => over)));
    },
  }));
}

const toState = failing("a holder's line to the state", ({ state }) => [state], 1.5);

const allToState: LineFault = {
  name: "connections of all replicas to the state are cut",
  run: async ({ replicas }, random) => {
    for (let cuts = 0; cuts < 3; cuts++) {
      for (const { state } of replicas) state.cut();
      await sleepSome(random, 50, 1_500);
    }
  },
};

const ownLines: readonly LineFault[] = [
  ...failing("a holder's line to source, sink or receiver", ({ lines }, random) => [
    lines[oneOf(random, lineNames)],
  ]),
  ...failing("everything of a holder but its line to the state", ({ lines }) => Object.values(lines)),
  ...failing("a holder's whole network", ({ lines, state }) => [state, ...Object.values(lines)]),
  {
    // What it sent to the sinks before arrives when others have taken over.
    name: "a holder's line to the state is refused, and what it sends to sinks arrives late",
    weight: 2,
    run: async (stage, random) => {
      const { lines, state } = await someHolder(stage, random);
      for (const line of [lines.sink, lines.receiver]) line.stall();
      state.refuse(true);
      state.cut();
      await sleepSome(random, 6_000, longestMs);
      for (const line of [lines.sink, lines.receiver]) line.resume();
      await sleepSome(random, 0, 1_000);
      state.refuse(false);
    },
  },
];

export function lineFaults(isIsolated: boolean): readonly LineFault[] {
  return [...toState, allToState, ...(isIsolated ? ownLines : [])];
}
