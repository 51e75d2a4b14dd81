// A pipeline between two databases of one real server, run in the test's own thread: started, stopped, broken off and
// compared.

import { expect } from "bun:test";
import type { TupleForm } from "../../../src/change/change-batch.ts";
import type { CopyPart } from "../../../src/change/copy-part.ts";
import type { Lsn } from "../../../src/change/lsn.ts";
import { untilAborted } from "../../../src/concurrency/until-aborted.ts";
import { historyAsked } from "../../../src/connector/config/catalog-selection.ts";
import type { PostgresSinkConfig } from "../../../src/connector/config/sink-config.ts";
import type { PostgresSourceConfig } from "../../../src/connector/config/source-config.ts";
import type { IdentifierNaming } from "../../../src/connector/connector.ts";
import type { TableStatus } from "../../../src/connector/table-status.ts";
import type { VerifySpec } from "../../../src/connector/task.ts";
import type { VerifyResult } from "../../../src/connector/verification.ts";
import { toMillraceError } from "../../../src/errors/millrace-error.ts";
import { type CopyPace, defaultCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import { runPipeline } from "../../../src/pipeline/run-pipeline.ts";
import type { Phase, PhaseHealth, Progress } from "../../../src/pipeline/run-reporter.ts";
import type { RunWork } from "../../../src/pipeline/run-work.ts";
import { TaskQueue } from "../../../src/pipeline/tasks/task-queue.ts";
import type { RetryPace } from "../../../src/pipeline/unreadable-tables.ts";
import { TableBoard } from "../../../src/runtime/status/table-board.ts";
import { createPostgresSink } from "../../../src/sink/postgres/create-postgres-sink.ts";
import { type SinkPace, sinkPace } from "../../../src/sink/postgres/sink-pace.ts";
import type { CheckpointStore, Sink } from "../../../src/sink/sink.ts";
import type { SetAsideTable } from "../../../src/sink/sink-events.ts";
import { PostgresCopySource } from "../../../src/source/postgres/postgres-copy-source.ts";
import { PostgresSource, type SourcePace } from "../../../src/source/postgres/postgres-source.ts";
import { dropPostgresObjects } from "../../../src/source/postgres/source-objects.ts";
import { streamPace } from "../../../src/source/postgres/stream/feedback.ts";
import type { Source, SourceEvents } from "../../../src/source/source.ts";
import { SourceState, type SourceStateStore } from "../../../src/source/source-state.ts";
import { postgresSink, postgresSource } from "../api/connector-config.ts";
import { dropMeanwhile } from "../drop-meanwhile.ts";
import { tableDifferences } from "../oracles/table-differences.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import { DyingCalls } from "./dying-calls.ts";
import { RigTasks } from "./rig-tasks.ts";
import { memorySourceState } from "./source-state.ts";

const noStore: CheckpointStore = {
  load: () => Promise.reject(new Error("a Postgres sink keeps its checkpoint itself")),
  save: () => Promise.reject(new Error("a Postgres sink keeps its checkpoint itself")),
};

export interface RigOptions {
  source?: Partial<PostgresSourceConfig>;
  sink?: Partial<PostgresSinkConfig>;
  readonly naming?: IdentifierNaming;
  readonly forms?: readonly TupleForm[];
  readonly skipSnapshots?: boolean;
  /** Transient errors do not end the run. */
  readonly isSupervised?: boolean;
  /** `copies`: there is no stream, and nothing is made at the source. */
  readonly work?: RunWork;
  readonly retryPace?: RetryPace;
  readonly pace?: Partial<SourcePace>;
  readonly sinkPace?: Partial<SinkPace>;
  /** Rows that wait at most: a larger transaction comes in pieces. 0 is the default. */
  readonly maxBufferedRows?: number;
  /** Where the source's state is kept; by default in memory. */
  readonly state?: SourceStateStore;
  /** Tasks whose run was stopped or has died are taken up by the next one. */
  readonly tasksGoOn?: boolean;
  /** Tables, and ranges of tables, that are copied side by side; from 4 on tasks go two at a time. */
  readonly parallelCopies?: number;
  readonly areConnectionsBounded?: boolean;
  /** How large tables are divided for their copies. */
  readonly copyPace?: Partial<CopyPace>;
  /** Where the sink's database is; by default beside the source's. */
  readonly sinkServer?: SinkServer;
}

export type SinkServer = Pick<PostgresServer, "connection" | "query" | "with" | "createDatabase">;

/** Of a supervised run; so many in a row are no accident. */
const maxAttempts = 50;

export class PipelineRig implements AsyncDisposable {
  /** What the source warns of now: changes that no event told. */
  silentChanges = "";
  /** Tables that are set aside at the sink, as the run told last. */
  setAside: readonly SetAsideTable[] = [];
  progress: Progress | null = null;
  readonly phases: { readonly phase: Phase; readonly health: PhaseHealth }[] = [];
  /** How often the source's tables were read. */
  tableReads = 0;
  /** The form of each stream that was started. */
  readonly streamForms: TupleForm[] = [];
  /** Each copy that was read, of a table or of a part of it. */
  readonly copies: { readonly table: string; readonly part: CopyPart | null; readonly lsn: Lsn }[] = [];
  initialized = false;
  /** The command Resume was given. */
  resumes = false;
  /** Role that the sink is written as, for runs that are started from here on; null: the server's superuser. */
  sinkUser: string | null = null;
  /** What is read of tables goes on when it is resolved. */
  copiesHeld: Promise<void> = Promise.resolve();
  /** What the stream has brought is written when it is resolved. */
  writesHeld: Promise<void> = Promise.resolve();
  /** What so many first streams have brought is written in any case. */
  streamsLet = 0;
  /** Of `copies`, those behind so many first ones stand still until `othersHeld` is resolved, or their run ends. */
  copiesLet = Number.POSITIVE_INFINITY;
  othersHeld: Promise<void> = new Promise(() => {});
  /** Runs before each point that copies are to be as of. A point that is given up does not wait for it. */
  beforePoint: () => Promise<void> = async () => {};
  /** Runs before a table is opened at the sink, to be compared. */
  beforeComparison: (table: string) => Promise<void> = async () => {};
  /** Runs before rows of a table are read at the sink, to be compared as of a place that the stream may have left. */
  beforeSinkRead: (table: string) => Promise<void> = async () => {};
  /** Runs when the slot and its snapshot are made, before the first copy. */
  beforeCopies: () => Promise<void> = async () => {};
  readonly #board = new TableBoard();
  /** How many runs were started. */
  #runs = 0;
  #stop = new AbortController();
  #abort = new AbortController();
  #running: Promise<unknown> | null = null;
  /** What of `phases` earlier runs have told. */
  #phasesBefore = 0;
  #tasks = new TaskQueue();
  readonly #rigTasks = new RigTasks(() => this.isDead);
  readonly #calls = new DyingCalls();
  /** The source's state, kept between runs of the rig. */
  readonly #sourceState = memorySourceState();

  private constructor(
    private readonly server: PostgresServer,
    private readonly name: string,
    private readonly options: RigOptions,
  ) {}

  /** Two fresh databases on `server`; `name` is theirs and the slot's. */
  static async create(server: PostgresServer, name: string, options: RigOptions = {}): Promise<PipelineRig> {
    const rig = new PipelineRig(server, name, options);
    await server.createDatabase(rig.sourceDatabase);
    await rig.#sinkServer.createDatabase(rig.sinkDatabase);
    return rig;
  }

  /** As `create`, with these tables at the source and at the sink, and a run that streams. */
  static async streaming(
    server: PostgresServer,
    name: string,
    sql: { readonly source: string; readonly sink?: string | undefined },
    options: RigOptions = {},
  ): Promise<PipelineRig> {
    const rig = await PipelineRig.create(server, name, options);
    await rig.source(sql.source);
    if (sql.sink !== undefined) await rig.sink(sql.sink);
    rig.start();
    await rig.untilRealtime();
    return rig;
  }

  /** From here on every transaction comes while it is in progress, however small; from PostgreSQL 16 on. */
  async sendInProgress(): Promise<void> {
    await this.source(
      `alter database "${this.sourceDatabase}" set debug_logical_replication_streaming = immediate`,
    );
  }

  get #sinkServer(): SinkServer {
    return this.options.sinkServer ?? this.server;
  }

  get sourceDatabase(): string {
    return `${this.name}_source`;
  }

  get sinkDatabase(): string {
    return `${this.name}_sink`;
  }

  get slot(): string {
    return `millrace_${this.name}`;
  }

  source<Row extends object = Record<string, unknown>>(sql: string): Promise<Row[]> {
    return this.server.query<Row>(sql, this.sourceDatabase);
  }

  sink<Row extends object = Record<string, unknown>>(sql: string): Promise<Row[]> {
    return this.#sinkServer.query<Row>(sql, this.sinkDatabase);
  }

  /** A session at the source, for one who says much. */
  sourceSession(): ReturnType<PostgresServer["connect"]> {
    return this.server.connect(this.sourceDatabase);
  }

  /** Another configuration of the source, for runs that are started from here on: what a PATCH does. */
  reconfigure(source: Partial<PostgresSourceConfig>): void {
    this.options.source = { ...this.options.source, ...source };
  }

  reconfigureSink(sink: Partial<PostgresSinkConfig>): void {
    this.options.sink = { ...this.options.sink, ...sink };
  }

  /** Starts a run. Its failure is kept for `ended`. */
  start(forms: readonly TupleForm[] = this.options.forms ?? ["binary", "text"]): void {
    const stop = new AbortController();
    const abort = new AbortController();
    this.#stop = stop;
    this.#abort = abort;
    this.#phasesBefore = this.phases.length;
    this.#runs += 1;
    const run = this.options.isSupervised ? this.#supervised : this.#run;
    this.#running = run.call(this, forms, stop.signal, abort.signal).then(
      () => null,
      (error: unknown) => error,
    );
  }

  /** Begins again after a transient error, as the service does, but at once; as text when the form was the matter. */
  async #supervised(forms: readonly TupleForm[], stop: AbortSignal, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#run(forms, stop, signal);
        return;
      } catch (error) {
        const { code, retry } = toMillraceError(error);

        if (retry !== "transient" || signal.aborted || attempt === maxAttempts) throw error;
        if (code === "stream_form_changed") forms = ["text"];
      }
    }
  }

  async #run(forms: readonly TupleForm[], stop: AbortSignal, signal: AbortSignal): Promise<void> {
    const state = await SourceState.load(this.options.state ?? this.#sourceState);
    this.#rigTasks.goOn = this.options.tasksGoOn ?? false;
    this.#tasks = this.#rigTasks.begin();
    await runPipeline({
      work: this.options.work ?? "changes",
      logWatchMs: 100,
      ...(this.options.retryPace ? { retryPace: this.options.retryPace } : {}),
      initialized: this.initialized,
      resumes: this.resumes,
      skipSnapshots: this.options.skipSnapshots ?? false,
      parallelCopies: this.options.parallelCopies ?? 3,
      verifyLanes: 2,
      areConnectionsBounded: this.options.areConnectionsBounded ?? false,
      copyPace: { ...defaultCopyPace, ...this.options.copyPace },
      forms,
      makeSource: (events) => this.#makeSource(events, signal, state),
      makeSink: (events) =>
        this.#watchedSink(
          createPostgresSink(
            postgresSink(this.#sinkConnection, this.options.sink),
            {
              connectorId: this.name,
              owner: "rig",
              signal,
              checkpoints: noStore,
              makesCopies: !(this.options.skipSnapshots ?? false),
              events,
            },
            this.options.naming ?? { SourceNaming: {} },
            { ...sinkPace, recheckMs: 100, ...this.options.sinkPace },
            historyAsked(this.#sourceConfig.catalog),
          ),
        ),
      reporter: {
        phase: (phase, health) => this.phases.push({ phase, health }),
        initialized: async () => {
          this.initialized = true;
          this.resumes = false;
          await this.beforeCopies();
        },
        progress: (progress) => {
          this.progress = progress;
        },
        setAside: (tables) => {
          this.setAside = tables;
        },
        tables: (report) => this.#board.reported(this.name, String(this.#runs), report),
      },
      tasks: this.#tasks,
      stop,
      abort: signal,
    }).catch((error: unknown) => {
      if (!signal.aborted && !stop.aborted) this.#rigTasks.failed(toMillraceError(error));
      throw error;
    });
  }

  #makeSource(events: SourceEvents, signal: AbortSignal, state: SourceState): Source {
    const following = { sinkFollowsShapes: true, isBegun: this.initialized, resumes: this.resumes };
    const context = { signal, owner: "rig", state, events: this.#noting(events), ...following };
    if (this.options.work === "copies") return new PostgresCopySource(this.#sourceConfig, context);
    return this.#watchedSource(this.#sourceConfig, this.slot, this.options.maxBufferedRows ?? 0, context, {
      ...streamPace,
      tableCheckMs: 100,
      ...this.options.pace,
    });
  }

  #noting(events: SourceEvents): SourceEvents {
    return {
      warning: (topic, reason, commands) => {
        if (topic === "silent changes") this.silentChanges = reason ?? "";
        events.warning(topic, reason, commands);
      },
    };
  }

  /** What ended the run: null when it was stopped. */
  async ended(): Promise<unknown> {
    return await this.#running;
  }

  /** Waits until the run streams. Fails with what ended it before. */
  async untilRealtime(): Promise<void> {
    const failed = this.#running?.then((error) => {
      throw error;
    });
    const isStreaming = () =>
      this.phases.length > this.#phasesBefore && this.phases.at(-1)?.phase.name === "realtime";
    const streaming = waitFor("the stream", isStreaming);
    await Promise.race([streaming, failed]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    expect(await this.ended()).toBeNull();
  }

  /** Breaks every connection off at once, as the death of the process would. */
  async crash(): Promise<void> {
    this.#abort.abort(new Error("crash"));
    await this.ended();
  }

  /** The run that goes on now breaks off, as in `crash`, at the `calls`-th step of its source's and sink's calls from here. */
  dieAt(calls: number): void {
    const abort = this.#abort;
    this.#calls.arm(calls, () => abort.abort(new Error("crash at a call")));
  }

  /** The run was broken off. */
  get isDead(): boolean {
    return this.#abort.signal.aborted;
  }

  /** Runs a snapshot task on the running pipeline; resolves with its failure or null. */
  async snapshot(table: string, truncate: boolean, isDivided = false): Promise<unknown> {
    const spec = { schema: "public", name: table, truncate, force_parallel: isDivided };
    return await this.#rigTasks.offer({ Snapshot: { database: this.sourceDatabase, ...spec } }, this.#tasks);
  }

  /** Cancels the tasks that run. Nobody hears of them any more. */
  cancelTasks(): void {
    this.#rigTasks.cancel(this.#tasks);
  }

  /** Compares a table with its source on the running pipeline. Throws the task's failure. */
  async verify(
    name: string,
    repair: VerifySpec["repair"] = "None",
    more: Partial<VerifySpec> = {},
  ): Promise<VerifyResult> {
    const spec = { database: this.sourceDatabase, schema: "public", name, repair, ...more };
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#rigTasks.offer({ Verify: spec }, this.#tasks);
      if (!(outcome instanceof Error)) return outcome as VerifyResult;
      // The service tries it again later, too.
      if (toMillraceError(outcome).code !== "table_changed" || attempt === 5) throw outcome;
      await Bun.sleep(200);
    }
  }

  /** Waits until every table of the source's schema public has the same rows at the sink, compared as text. */
  async expectEqual(timeoutMs = 30_000): Promise<void> {
    let failure: unknown = null;
    void this.#running?.then((error) => {
      failure = error;
    });
    // Not looked at again: a state that is on its way may be equal for a moment.
    let difference: object = { tables: "not compared" };
    const settled = async () => {
      if (failure !== null) return true;
      difference = await this.difference();
      return Object.keys(difference).length === 0;
    };
    await waitFor("the sink to equal the source", settled, { timeoutMs, intervalMs: 50 }).catch(() => {});
    expect(failure).toBeNull();
    expect(difference).toEqual({});
  }

  /** Tables of the source whose rows at the sink are others, compared as text. Throws what ended the run. */
  async unequal(): Promise<readonly string[]> {
    const ended = await Promise.race([this.#running, Promise.resolve(null)]);
    if (ended) throw ended;
    return Object.keys(await this.difference());
  }

  /** Waits until `sql` gives the same rows, in the same order, on both sides: for what has another name or shape at the sink. */
  async expectSame(sql: string, timeoutMs = 30_000): Promise<void> {
    const atSource = () => this.source<object>(sql);
    const atSink = () => this.sink<object>(sql).catch((error) => [{ error: String(error) }]);
    const isSame = async () => Bun.deepEquals(await atSource(), await atSink());
    let failure: unknown = null;
    void this.#running?.then((error) => {
      failure = error;
    });
    await waitFor("both sides to be the same", async () => failure !== null || (await isSame()), {
      timeoutMs,
      intervalMs: 50,
    }).catch(() => {});
    expect(failure).toBeNull();
    expect(await atSink()).toEqual(await atSource());
  }

  /** Where the tables stand, as the run told last. */
  get tables(): readonly TableStatus[] {
    return this.#board.list(this.name, String(this.#runs));
  }

  /** The table of this name. */
  table(name: string): TableStatus | undefined {
    return this.tables.find((table) => table.name === name);
  }

  /** Reasons of the warnings so far, each once. */
  get warnings(): readonly string[] {
    return [
      ...new Set(this.phases.flatMap(({ health }) => (health.kind === "warning" ? [health.reason] : []))),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new Error("the test is over"));
    await this.#running;
    await dropPostgresObjects(this.#sourceConfig, this.slot, AbortSignal.timeout(20_000));
    dropMeanwhile(this.server, this.sourceDatabase);
    dropMeanwhile(this.#sinkServer, this.sinkDatabase);
  }

  #watchedSink(sink: Sink): Sink {
    const write = sink.write.bind(sink);
    sink.write = async (batch) => {
      if (this.streamForms.length > this.streamsLet) await untilAborted(this.writesHeld, this.#abort.signal);
      await write(batch);
    };
    const { verification } = sink;
    if (verification) {
      const open = verification.open.bind(verification);
      verification.open = async (table, stop) => {
        const { name } = table.relation;
        await this.beforeComparison(name);
        const rows = await open(table, stop);
        const read = rows.read.bind(rows);
        rows.read = (...asked) => this.#after(this.beforeSinkRead(name), read(...asked));
        return rows;
      };
    }
    return this.#calls.watch(sink);
  }

  #watchedSource(...args: ConstructorParameters<typeof PostgresSource>): PostgresSource {
    const source = new PostgresSource(...args);
    const stream = source.stream.bind(source);
    source.stream = (checkpoint, form, taken) => {
      this.streamForms.push(form);
      return stream(checkpoint, form, taken);
    };
    const snapshotPoint = source.snapshotPoint.bind(source);
    source.snapshotPoint = async (signal) => {
      await untilAborted(this.beforePoint(), signal);
      return await snapshotPoint(signal);
    };
    const readTable = source.readTable.bind(source);
    source.readTable = (table, point, form, part) => {
      this.copies.push({ table: table.relation.name, part: part ?? null, lsn: point.lsn });
      const copy = readTable(table, point, form, part);
      const isLet = this.copies.length <= this.copiesLet;
      return { ...copy, chunks: this.#held(copy.chunks, isLet) };
    };
    const tables = source.tables.bind(source);
    source.tables = (ask) => {
      this.tableReads++;
      return tables(ask);
    };
    return this.#calls.watch(source);
  }

  /** Rows are read as of their point, whenever they go on. */
  async *#held(chunks: AsyncIterable<Uint8Array>, isLet: boolean): AsyncGenerator<Uint8Array> {
    // Before it is begun: the table is not locked meanwhile.
    if (!isLet) await untilAborted(this.othersHeld, this.#abort.signal);
    for await (const chunk of chunks) {
      await untilAborted(this.copiesHeld, this.#abort.signal);
      yield chunk;
    }
  }

  async *#after<T>(before: Promise<void>, chunks: AsyncIterable<T>): AsyncGenerator<T> {
    await before;
    yield* chunks;
  }

  get #sinkConnection(): ReturnType<PostgresServer["connection"]> {
    const connection = this.#sinkServer.connection(this.sinkDatabase);
    return this.sinkUser === null ? connection : { ...connection, user: this.sinkUser };
  }

  get #sourceConfig(): PostgresSourceConfig {
    return postgresSource(this.server.connection(this.sourceDatabase), this.options.source);
  }

  /** What differs between source and sink, by table, compared as text. */
  async difference(): Promise<object> {
    return await this.server.with(this.sourceDatabase, (source) =>
      this.#sinkServer.with(this.sinkDatabase, (sink) => tableDifferences(source, sink, this.options.source)),
    );
  }
}
