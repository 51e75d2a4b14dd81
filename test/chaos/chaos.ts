// `bun run chaos`: rounds of random load under random faults. A round that breaks a law says what was wrong, and shows the service's log.

import { Command, Option } from "commander";
import { wholeNumberFrom } from "../support/program/whole-number.ts";
import { playReplicaRounds } from "./replicas/replica-rounds.ts";
import { playServiceRounds } from "./service-rounds.ts";

interface ChaosOptions {
  readonly rounds: number;
  readonly from: number;
  readonly seed: number;
  readonly only: string;
  readonly replicas?: number;
  readonly kafka: boolean;
}

const { replicas, kafka, ...options } = new Command("chaos")
  .description("Puts random load on the service under random faults, and compares the sinks with the source.")
  .option("--rounds <number>", "how many, unless one breaks a law", wholeNumberFrom(1), 20)
  .addOption(
    new Option("--seed <number>", "for the same faults again")
      .argParser(wholeNumberFrom(1))
      .default(Date.now() % 2 ** 31, "another one each time"),
  )
  .option("--from <round>", "begins at that round of the seed", wholeNumberFrom(1), 1)
  .addOption(new Option("--only <text>", "only faults whose name contains this text").default("", "all"))
  .option(
    "--replicas <number>",
    "so many replicas over one state, instead of one service",
    wholeNumberFrom(1),
  )
  .option("--kafka", "with replicas: writes to a broker too", false)
  .parse()
  .opts<ChaosOptions>();

const isFine =
  replicas === undefined
    ? await playServiceRounds(options)
    : await playReplicaRounds({ ...options, replicas, hasKafka: kafka });
process.exit(isFine ? 0 : 1);
