// Random tables, random transactions, random alterations, random deaths: in the end each table of the sink equals the source's,
// or a warning names it and the snapshot task that it tells of mends it. Prints its seed when it fails;
// MILLRACE_FUZZ_SEED and MILLRACE_FUZZ_PATH bring a failure back, MILLRACE_FUZZ_RUNS sets how many cases are played.

import { afterAll, beforeAll, test } from "bun:test";
import fc from "fast-check";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { PostgresSinkConfig } from "../../../src/connector/config/sink-config.ts";
import { withItsPlace } from "../../support/loads/play-failure.ts";
import { typeKinds } from "../../support/loads/random-own-type.ts";
import { partitionKinds } from "../../support/loads/random-partitions.ts";
import { type Manner, RandomPlay, type Step } from "../../support/loads/random-play.ts";
import {
  type ActKind,
  alterationKinds,
  beginningNames,
  changeKinds,
  type RandomAct,
  RandomSchema,
} from "../../support/loads/random-schema.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({
    settings: { fsync: "off", autovacuum: "off", max_prepared_transactions: "8" },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const act = (...kinds: readonly ActKind[]): fc.Arbitrary<RandomAct> =>
  fc.record({ kind: fc.constantFrom(...kinds), pick: fc.tuple(fc.nat(9_999), fc.nat(9_999), fc.nat(9_999)) });

/** What MILLRACE_FUZZ_WIDE names is played too, by default tasks: `masks`, `tasks`, `deaths`, `manners`, `partitions`, `types`, `ranges`, or `all`. */
const { MILLRACE_FUZZ_WIDE } = process.env;
const wide = (MILLRACE_FUZZ_WIDE ?? "tasks").split(",");
const isWide = (kind: string) => wide.includes(kind) || wide.includes("all");
const weight = (kind: string, n: number) => (isWide(kind) ? n : 0);

const manners: readonly Manner[] = [
  "each",
  "one",
  ...(isWide("manners") ? (["half undone", "prepared", "prepared, undone"] as const) : []),
];

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({
      acts: fc.array(
        fc.oneof(
          { weight: 12, arbitrary: act("insert", "insert", ...changeKinds) },
          { weight: 5, arbitrary: act(...alterationKinds) },
          { weight: weight("partitions", 4), arbitrary: act("create root", ...partitionKinds) },
          { weight: weight("types", 5), arbitrary: act("create type", ...typeKinds) },
        ),
        { minLength: 1, maxLength: 8 },
      ),
      manner: fc.constantFrom<Manner>(...manners),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom<Step>("crash", "stop") },
  { weight: 2, arbitrary: fc.constant<Step>("start") },
  { weight: 1, arbitrary: fc.constant<Step>("settle") },
  {
    weight: weight("tasks", MILLRACE_FUZZ_WIDE === undefined ? 1 : 3),
    arbitrary: fc.record({ task: fc.nat(99), truncate: fc.boolean() }),
  },
  { weight: weight("deaths", 4), arbitrary: fc.record({ dieAt: fc.integer({ min: 1, max: 60 }) }) },
);

/** Each table in ranges, each as of a point of its own where one can be had. */
const onePageAtATime = { dividedFromBytes: 1, rangeBytes: 1, pointHeldMs: 0 };

const columnNames = Array.from({ length: 14 }, (_, i) => `c${i + 1}`);

type Strategy = PostgresSinkConfig["migration_strategy"];
const allChanges: Strategy["allowed"] = ["Add", "Drop", "Datatype", "Nullability", "Order"];
const isPartly = process.env.MILLRACE_FUZZ_PARTLY !== undefined;
/** Everything is allowed, unless MILLRACE_FUZZ_PARTLY is set: then tables are set aside until the SQL that is told has been run. */
const strategy: fc.Arbitrary<Strategy> = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ allowed: allChanges, disable_all: false }) },
  {
    weight: isPartly ? 3 : 0,
    arbitrary: fc.record({
      allowed: fc.subarray(allChanges),
      disable_all: fc.constant(false),
    }),
  },
);

/** By name, as catalogs do: columns, but for those of keys, are hashed or left out, and a table is left out. */
const catalog: fc.Arbitrary<Catalog> = fc
  .record({
    hashed: fc.subarray(columnNames),
    excluded: fc.subarray(columnNames),
    left: fc.constantFrom("t2", "t7", "t8", "none"),
  })
  .map(({ hashed, excluded, left }) => ({
    name: "any",
    default_action: "Include",
    column_hashing: { algorithm: "Sha256", salt: "a salt" },
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: [...beginningNames, left].map((name) => ({
          name,
          action: name === left ? "Exclude" : "Include",
          history_enabled: false,
          columns: [
            ...hashed.map((column) => ({ name: column, action: "Include" as const, hash: {} })),
            ...excluded
              .filter((column) => !hashed.includes(column))
              .map((column) => ({ name: column, action: "Exclude" as const })),
          ],
        })),
      },
    ],
  }));

let round = 0;

const { MILLRACE_FUZZ_RUNS, MILLRACE_FUZZ_SEED, MILLRACE_FUZZ_PATH, MILLRACE_FUZZ_SHRINK } = process.env;
/** `test:long` plays more. */
const runs = Number(MILLRACE_FUZZ_RUNS ?? 12);
/** Side by side, since much of a case is waiting; a failure is brought back alone. */
const lanes = MILLRACE_FUZZ_SEED ? 1 : 4;

const lane = () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 3, maxLength: 25 }),
      fc.constantFrom<readonly ("binary" | "text")[]>(["binary", "text"], ["text"]),
      fc.constantFrom<readonly [number, "in progress"?]>([0], [0], [7], [2, "in progress"]),
      strategy,
      isWide("masks") ? catalog : fc.constant(undefined),
      isWide("partitions") ? fc.boolean() : fc.constant(false),
      isWide("ranges") ? fc.boolean() : fc.constant(false),
      async (
        steps,
        forms,
        [maxBufferedRows, comes],
        migration_strategy,
        masked,
        partitions_as_root,
        isRanged,
      ) => {
        await using pair = await PipelineRig.create(server, `s${++round}`, {
          forms,
          maxBufferedRows,
          sink: { migration_strategy },
          source: { ...(masked ? { catalog: masked } : {}), partitions_as_root },
          isSupervised: true,
          ...(isRanged ? { copyPace: onePageAtATime } : {}),
        });
        if (comes === "in progress") await pair.sendInProgress();
        await using session = await pair.sourceSession();
        await new RandomPlay(
          pair,
          session,
          new RandomSchema(masked ? beginningNames : [], partitions_as_root, isWide("partitions")),
        ).run(steps);
      },
    ),
    {
      numRuns: Math.ceil(runs / lanes),
      ...(MILLRACE_FUZZ_SEED ? { seed: Number(MILLRACE_FUZZ_SEED) } : {}),
      ...(MILLRACE_FUZZ_PATH ? { path: MILLRACE_FUZZ_PATH } : {}),
      endOnFailure: MILLRACE_FUZZ_SHRINK === undefined,
    },
  );

test(
  "the sink equals the source, or says where not, after any load, any alterations and any number of deaths",
  async () => {
    await Promise.all(Array.from({ length: lanes }, () => withItsPlace(lane())));
  },
  { timeout: Number(process.env.MILLRACE_FUZZ_MINUTES ?? 10) * 60_000 },
);
