// Plays a random case on a pipeline: loads and alterations, deaths of the run, tasks. In the end every table of the sink equals the
// source's, or a warning names it and what it tells to do mends it.

import { expect } from "bun:test";
import type { Client } from "pg";
import { toMillraceError } from "../../../src/errors/millrace-error.ts";
import type { PipelineRig } from "../pipeline/pipeline-rig.ts";
import { waitFor } from "../wait-for.ts";
import { type RandomAct, RandomSchema } from "./random-schema.ts";

/**
 * How acts come to the database: each by itself, all in one transaction, in one of which the later half is undone, or in a prepared one,
 * which goes on or is undone while another run goes on.
 */
export type Manner = "each" | "one" | "half undone" | "prepared" | "prepared, undone";

export type Step =
  | { readonly acts: readonly RandomAct[]; readonly manner: Manner }
  | { readonly task: number; readonly truncate: boolean }
  | { readonly dieAt: number }
  | "crash"
  | "stop"
  | "start"
  | "settle";

/** A case is small; what is not there by then does not come. Several are played at once, beside other tests, on a machine that may be slow. */
const settledWithinMs = 60_000;

const never = Number.POSITIVE_INFINITY;

export class RandomPlay {
  #isRunning = false;
  /** What was done, to be read where it ends badly. */
  readonly #script: string[] = [];

  constructor(
    private readonly pair: PipelineRig,
    private readonly session: Client,
    private readonly schema = new RandomSchema(),
  ) {}

  async run(steps: readonly Step[]): Promise<void> {
    try {
      await this.#run(steps);
    } catch (error) {
      const script = this.#script.join(";\n");
      const { warnings, setAside, silentChanges } = this.pair;
      const phases = this.pair.phases.slice(-8);
      // A transaction that a statement has ended in keeps its locks, and nothing could be compared.
      await this.session.query("rollback").catch(() => {});
      const found = [await this.#sinkTables(), warnings, phases, setAside, await this.pair.difference()];
      throw new Error(
        `after\n${script}\nfound, and at last what differs\n${found.map(printed).join("\n")}\nwarned: ${silentChanges}\n${error}`,
        { cause: error },
      );
    }
  }

  #sinkTables(): Promise<unknown> {
    return this.pair.sink(
      `select attrelid::regclass::text as table, string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum) as columns
       from pg_attribute join pg_class c on c.oid = attrelid and relkind in ('r', 'p')
       where attnum > 0 and not attisdropped and relnamespace::regnamespace::text !~ '^(pg_|information|millrace)' group by 1`,
    );
  }

  async #run(steps: readonly Step[]): Promise<void> {
    await this.#execute(this.schema.begin());
    await this.#start();
    for (const each of steps) await this.#step(each);
    this.pair.dieAt(never);
    await this.#start();
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
        return await this.#start();
      case "stop":
        return await this.#stop();
      case "settle":
        await this.#start();
        return await this.#settle();
      case "crash":
        if (this.#isRunning) await this.pair.crash();
        this.#isRunning = false;
        return;
      default:
        if ("acts" in step) return await this.#load(step);
        if ("task" in step) return this.#task(step);
        this.#script.push(`-- dies at ${step.dieAt}`);
        await this.#start();
        return this.pair.dieAt(step.dieAt);
    }
  }

  async #load({ acts, manner }: Extract<Step, { readonly acts: unknown }>): Promise<void> {
    const half = acts.length >> 1;
    const sql = (some: readonly RandomAct[]) => some.flatMap((each) => this.schema.act(each) ?? []);
    const undo = this.schema.savepoint();
    switch (manner) {
      case "each":
        for (const each of sql(acts)) await this.#execute(each);
        return;
      case "one":
        return await this.#execute(sql(acts).join("; "));
      case "half undone": {
        const first = sql(acts.slice(0, half));
        const undoHalf = this.schema.savepoint(false);
        const later = sql(acts.slice(half));
        undoHalf();
        const last = sql(acts.slice(half).reverse());
        const parts = ["begin", ...first, "savepoint s", ...later, "rollback to s", ...last, "commit"];
        return await this.#execute(parts.join("; "));
      }
      case "prepared":
      case "prepared, undone": {
        await this.#execute(["begin", ...sql(acts), `prepare transaction '${this.pair.slot}'`].join("; "));
        if (half % 2 === 1 && this.#isRunning) await this.#step("crash");
        await this.#start();
        if (manner === "prepared") return await this.#execute(`commit prepared '${this.pair.slot}'`);
        undo();
        return await this.#execute(`rollback prepared '${this.pair.slot}'`);
      }
      default:
        manner satisfies never;
    }
  }

  /** Whatever becomes of it: the tables may be others by the time that it is made. */
  #task({ task, truncate }: Extract<Step, { readonly task: unknown }>): void {
    const tables = this.schema.tableNames;
    const table = tables[task % Math.max(1, tables.length)];
    if (table === undefined) return;
    this.#script.push(`-- task of ${table}${truncate ? ", truncating" : ""}`);
    void this.pair.snapshot(table, truncate);
  }

  async #execute(sql: string): Promise<void> {
    if (sql === "") return;
    this.#script.push(sql);
    for (let attempt = 1; ; attempt++)
      try {
        await this.session.query(sql);
        return;
      } catch (error) {
        const isListed = /publication of table|does not cover the replica identity/.test(
          String((error as { detail?: unknown }).detail),
        );
        if (!isListed || attempt === 20) throw error;
        await this.session.query("rollback");
        await this.#takeOut();
      }
  }

  /** Postgres refuses alterations of columns that a publication lists, and changes of tables whose identity is more than these: what people are told to do then. */
  async #takeOut(): Promise<void> {
    this.#script.push("-- refused: all listed tables are taken out");
    const { rows } = await this.session.query<{ sql: string }>(
      `select format('alter publication %I drop table %s', p.pubname, r.prrelid::regclass) as sql
       from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where r.prattrs is not null`,
    );
    await this.session.query(rows.map(({ sql }) => sql).join("; "));
  }

  /** By the task that the warning names; where the table has to change first, the shape is still on its way. */
  async #mendWarned(table: string): Promise<void> {
    if (!this.schema.tableNames.includes(table)) return;
    const failure = await this.#copy(table);
    if (failure === null) return;
    expect(failure).toMatchObject({ code: "sink_schema_mismatch" });
    const isAside = () => this.pair.setAside.some(({ name }) => name === table);
    await waitFor(`${table} to be set aside`, isAside, { timeoutMs: settledWithinMs });
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
      await waitFor("tables that were mended to be taken back", isNews, { timeoutMs: settledWithinMs });
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
        await this.#start();
        const unequal = await this.pair.unequal();
        const aside = new Set(this.pair.setAside.map(({ name }) => name));
        return unequal.every((table) => aside.has(table) || this.#isWarned(table));
      },
      { timeoutMs: settledWithinMs, intervalMs: 30 },
    );
  }

  /** A few are named. */
  #isWarned(table: string): boolean {
    const warned = this.pair.silentChanges;
    return warned.includes(`Table public.${table}:`) || warned.includes(" tables more.");
  }

  async #start(): Promise<void> {
    if (this.#isRunning && !this.pair.isDead) return;
    await this.pair.ended();
    this.pair.start();
    this.#isRunning = true;
  }

  async #stop(): Promise<void> {
    this.pair.dieAt(never);
    if (this.#isRunning && !this.pair.isDead) await this.pair.stop();
    await this.pair.ended();
    this.#isRunning = false;
  }
}

function printed(value: unknown): string {
  return JSON.stringify(value, (_, v) => (typeof v === "bigint" ? String(v) : v));
}
