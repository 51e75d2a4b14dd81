// Random tables, random transactions, random alterations, random deaths: in the end each table of the sink equals the source's,
// or a warning names it and the snapshot task that it tells of mends it. Prints its seed when it fails;
// MILLRACE_FUZZ_SEED and MILLRACE_FUZZ_PATH bring a failure back, MILLRACE_FUZZ_RUNS sets how many cases are played.

import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import type { Client } from "pg";
import type { PostgresSinkConfig } from "../../src/connector/sink-config.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { toMillraceError } from "../../src/errors/millrace-error.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";
import {
  type ActKind,
  alterationKinds,
  changeKinds,
  type RandomAct,
  RandomSchema,
} from "../support/random-schema.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", autovacuum: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const act = (...kinds: readonly ActKind[]): fc.Arbitrary<RandomAct> =>
  fc.record({ kind: fc.constantFrom(...kinds), pick: fc.tuple(fc.nat(9_999), fc.nat(9_999), fc.nat(9_999)) });

type Step =
  | { readonly acts: readonly RandomAct[]; readonly isOne: boolean }
  | "crash"
  | "stop"
  | "start"
  | "settle";

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({
      acts: fc.array(
        fc.oneof(
          { weight: 12, arbitrary: act("insert", "insert", ...changeKinds) },
          { weight: 5, arbitrary: act(...alterationKinds) },
        ),
        { minLength: 1, maxLength: 8 },
      ),
      isOne: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom<Step>("crash", "stop") },
  { weight: 2, arbitrary: fc.constant<Step>("start") },
  { weight: 1, arbitrary: fc.constant<Step>("settle") },
);

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

let round = 0;

class Play {
  readonly #schema = new RandomSchema();
  #isRunning = false;
  /** What was done, to be read where it ends badly. */
  readonly #script: string[] = [];

  constructor(
    private readonly pair: PipelineRig,
    private readonly session: Client,
  ) {}

  async run(steps: readonly Step[]): Promise<void> {
    try {
      await this.#run(steps);
    } catch (error) {
      const script = this.#script.join(";\n");
      const found = JSON.stringify(
        [await this.pair.difference(), this.pair.phases.slice(-4), this.pair.setAside],
        (_, v) => (typeof v === "bigint" ? String(v) : v),
        1,
      );
      throw new Error(`after\n${script}\n${error}\n${found}\nwarned: ${this.pair.silentChanges}`, {
        cause: error,
      });
    }
  }

  async #run(steps: readonly Step[]): Promise<void> {
    await this.#execute(this.#schema.begin());
    this.#start();
    for (const each of steps) await this.#step(each);
    this.#start();
    await this.#settle();
    await this.#mendSetAside();
    await this.#settle();
    for (const table of await this.pair.unequal()) await this.#mendWarned(table);
    await this.pair.expectEqual();
    await this.#stop();
  }

  async #step(step: Step): Promise<void> {
    if (typeof step === "string") this.#script.push(`-- ${step}`);
    switch (step) {
      case "start":
        return this.#start();
      case "stop":
        return await this.#stop();
      case "settle":
        this.#start();
        return await this.#settle();
      case "crash":
        if (this.#isRunning) await this.pair.crash();
        this.#isRunning = false;
        return;
      default: {
        const sql = step.acts.flatMap((each) => this.#schema.act(each) ?? []);
        if (step.isOne && sql.length > 0) await this.#execute(sql.join("; "));
        else for (const each of sql) await this.#execute(each);
      }
    }
  }

  async #execute(sql: string): Promise<void> {
    this.#script.push(sql);
    await this.session.query(sql);
  }

  /** By the task that the warning names; where the table has to change first, the shape is still on its way. */
  async #mendWarned(table: string): Promise<void> {
    if (!this.#schema.tableNames.includes(table)) return;
    const failure = await this.#copy(table);
    if (failure === null) return;
    expect(failure).toMatchObject({ code: "sink_schema_mismatch" });
    const isAside = () => this.pair.setAside.some(({ name }) => name === table);
    await waitFor(`${table} to be set aside`, isAside, { timeoutMs: 20_000 });
    await this.#mendSetAside();
    await this.#settle();
    expect(await this.#copy(table)).toBeNull();
  }

  /** As the service does: again, while the table's name is still on its way. */
  async #copy(table: string): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const failure = await this.pair.snapshot(table, true);
      if (failure === null || toMillraceError(failure).code !== "table_changed" || attempt === 5)
        return failure;
      await this.#settle();
    }
  }

  /** Runs the SQL that is told of tables that are set aside, until none is. */
  async #mendSetAside(): Promise<void> {
    const made = new Set<string>();
    const left = () => this.pair.setAside.flatMap(({ commands }) => commands).filter((sql) => !made.has(sql));
    while (this.pair.setAside.length > 0) {
      await this.#untilToldAlike();
      for (const sql of left()) {
        this.#script.push(`-- at the sink: ${sql}`);
        made.add(sql);
        await this.pair.sink(sql);
      }
      const isNews = () => this.pair.setAside.length === 0 || left().length > 0;
      await waitFor("tables that were mended to be taken back", isNews, { timeoutMs: 20_000 });
    }
  }

  /** What is told follows what other tables do at the sink, as fast as it is looked at. */
  async #untilToldAlike(): Promise<void> {
    let [told, times] = ["", 0];
    const isAtRest = () => {
      const now = this.pair.setAside.map(({ commands }) => commands.join("; ")).join("; ");
      times = now === told ? times + 1 : 0;
      told = now;
      return times >= 5;
    };
    await waitFor("what is told to come to rest", isAtRest, { intervalMs: 100 });
  }

  /** Every table is equal, or a warning names it, or it is set aside. */
  async #settle(): Promise<void> {
    await waitFor(
      "every table to be equal or warned of",
      async () => {
        const unequal = await this.pair.unequal();
        const aside = new Set(this.pair.setAside.map(({ name }) => name));
        return unequal.every(
          (table) => aside.has(table) || this.pair.silentChanges.includes(`Table public.${table}:`),
        );
      },
      { timeoutMs: 20_000, intervalMs: 30 },
    );
  }

  #start(): void {
    if (!this.#isRunning) this.pair.start();
    this.#isRunning = true;
  }

  async #stop(): Promise<void> {
    if (this.#isRunning) await this.pair.stop();
    this.#isRunning = false;
  }
}

const { MILLRACE_FUZZ_RUNS, MILLRACE_FUZZ_SEED, MILLRACE_FUZZ_PATH, MILLRACE_FUZZ_SHRINK } = process.env;
const runs = Number(MILLRACE_FUZZ_RUNS ?? 200);
/** Side by side, since much of a case is waiting; a failure is brought back alone. */
const lanes = MILLRACE_FUZZ_SEED ? 1 : 4;

const lane = () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 3, maxLength: 25 }),
      fc.constantFrom<readonly ("binary" | "text")[]>(["binary", "text"], ["text"]),
      fc.constantFrom(0, 0, 7),
      strategy,
      async (steps, forms, maxBufferedRows, migration_strategy) => {
        await using pair = await PipelineRig.create(server, `s${++round}`, {
          forms,
          maxBufferedRows,
          sink: { migration_strategy },
          isSupervised: true,
        });
        await using session = await pair.sourceSession();
        await new Play(pair, session).run(steps);
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
    await Promise.all(Array.from({ length: lanes }, lane));
  },
  { timeout: Number(process.env.MILLRACE_FUZZ_MINUTES ?? 10) * 60_000 },
);
