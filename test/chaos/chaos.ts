// `bun run chaos`: rounds of random load under random faults, until one breaks a law or the rounds are over. `--rounds 500`, `--seed N`
// for the same faults again, `--from 42` to begin at that round of it, `--only kill` for those whose name holds a word. `--replicas 3`: so
// many replicas over one state, instead of one service; with `--kafka` also to a broker. A round that fails says what was wrong, and the service's log.

import { parseArgs } from "node:util";
import { playReplicaRounds } from "./replicas/replica-rounds.ts";
import { playServiceRounds } from "./service-rounds.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    from: { type: "string", default: "1" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    only: { type: "string", default: "" },
    replicas: { type: "string" },
    kafka: { type: "boolean", default: false },
  },
});
const options = {
  rounds: Number(values.rounds),
  from: Number(values.from),
  seed: Number(values.seed),
  only: values.only,
};
const isFine =
  values.replicas === undefined
    ? await playServiceRounds(options)
    : await playReplicaRounds({ ...options, replicas: Number(values.replicas), hasKafka: values.kafka });
process.exit(isFine ? 0 : 1);
