// Brings one connector to where its stored record says it should be: running under the stored run id, stopped,
// begun anew, or gone. Level-triggered: it reads the record, acts, and reads it again when it was poked meanwhile.

import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { slotName } from "../connector/connector-id.ts";
import type { Status } from "../connector/status.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import type { State } from "../state/open-state.ts";
import { noRound, type StoredConnector } from "../state/stores/connector-store.ts";
import type { RecordStore } from "../state/stores/record-store.ts";
import type { RunAttempt, RunEvents } from "./run/connector-run.ts";
import { RunLoop } from "./run/run-loop.ts";
import { SnapshotRounds } from "./run/snapshot-rounds.ts";
import type { StatusBoard } from "./status/status-board.ts";
import { TaskDesk } from "./task-desk.ts";
import type { RecordOwner, RunRequest } from "./threads/messages.ts";
import type { ThreadWatch } from "./threads/thread-watch.ts";

export interface SupervisionContext {
  readonly state: State;
  readonly board: StatusBoard;
  readonly threads: ThreadWatch;
  readonly log: Log;
  startRun(request: RunRequest, events: RunEvents): RunAttempt;
  /** Drops the slot and the publication that the service made for this connector. */
  dropSourceObjects(connector: ConnectorConfig, signal: AbortSignal): Promise<void>;
  dropSinkObjects(connector: ConnectorConfig, signal: AbortSignal): Promise<void>;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** How long the source may take to drop what was made there, for one try. */
const dropMs = 15_000;
const forcedDropMs = 4_000;
/** Between tries to clean up at a source, and to read a state store that does not answer. */
const againMs = 3_000;

export class SupervisedConnector {
  readonly desk: TaskDesk;
  readonly #log: Log;
  #loop: RunLoop | null = null;
  #reconciling: Promise<void> | null = null;
  #isStale = false;
  /** Aborted by a poke: what is waited for may no longer be wanted. */
  #interrupt = new AbortController();
  #retryTimer: Timer | undefined;
  #closed = false;
  /** Why the last try to clean up at a source failed; null: none did. */
  #leftBehind: string | null = null;

  constructor(
    private readonly id: string,
    private readonly context: SupervisionContext,
    private readonly gone: () => void,
  ) {
    this.#log = context.log.child({ connector: id });
    this.desk = new TaskDesk(id, {
      ...{ ...context, store: context.state.tasks, log: this.#log },
      waiting: () => this.#loop?.taskWaits(),
    });
  }

  /** The record may have changed. Returns at once. */
  poke(): void {
    if (this.#closed) return;
    this.#isStale = true;
    this.#interrupt.abort();
    clearTimeout(this.#retryTimer);
    this.#reconciling ??= this.#reconcile();
  }

  /** Whether the run with this id has come to its end by itself: complete, or failed for good. */
  isOver(runId: string): boolean {
    return this.#loop?.runId === runId && this.#loop.isOver;
  }

  /** Resolves when what was poked for has been carried out, or has to wait for a source. */
  async settled(): Promise<void> {
    await this.#reconciling;
  }

  /** Stops the run, as at the end of the service. The record stays as it is. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#interrupt.abort();
    clearTimeout(this.#retryTimer);
    this.#loop?.stop();
    await this.#reconciling;
    await this.#stopRun();
    await this.desk.close();
  }

  async #reconcile(): Promise<void> {
    while (this.#isStale && !this.#closed) {
      this.#isStale = false;
      this.#interrupt = new AbortController();
      try {
        await this.#bringAbout(await this.context.state.connectors.find(this.id));
      } catch (error) {
        this.#log.error({ error }, "the connector could not be brought to its state");
        this.#pokeLater();
      }
    }
    this.#reconciling = null;
  }

  async #bringAbout(stored: StoredConnector | null): Promise<void> {
    const mayRun =
      stored && !stored.deletion && !stored.stopped && !stored.config.disabled && !stored.cleanup;
    if (this.#loop && !(mayRun && this.#loop.runId === stored.runId)) await this.#stopRun();
    if (!stored) return this.#forget();
    if (stored.deletion) return this.#delete(stored, stored.deletion);
    if (stored.cleanup) return this.#beginAnew(stored, stored.cleanup);
    if (stored.config.disabled) return this.#rest(stored, { disabled: {} });
    if (stored.stopped) return this.#rest(stored, { shutdown: {} });
    if (!this.#loop) this.#startRun(stored);
  }

  #rest({ runId }: StoredConnector, state: { disabled: object } | { shutdown: object }): void {
    this.context.board.report(this.id, runId, "Connector", { state, status: { complete: {} } });
  }

  #startRun(stored: StoredConnector): void {
    const { board, ...context } = this.context;
    const { runId } = stored;
    board.begin(this.id, runId);
    this.#loop = new RunLoop(stored, {
      ...context,
      startRun: (request, events) => this.context.startRun(request, events),
      events: this.#events(runId),
      rounds: this.#roundsOf(stored),
      resting: (nextAt, failed) => {
        const state = nextAt ? { scheduled: {} } : { complete: {} };
        board.report(this.id, runId, "Connector", { state, status: failed ? { failed } : { complete: {} } });
        board.nextSnapshot(this.id, runId, nextAt);
      },
      attached: (run, error) => this.#attached(stored, run, error),
      failing: (error, health) => {
        // What is none of our own errors is a fault to be found; the others say themselves what they are.
        if (error.code === "internal") this.#log.error({ run: runId, error }, "a fault in the run");
        board.failed(this.id, stored.runId, error);
        board.reportHealth(this.id, stored.runId, "Connector", health);
      },
    });
    // Tasks that came while nothing ran: a run that waits for its next round makes no attempt that would ask.
    this.desk.wake();
  }

  #attached({ config }: StoredConnector, run: RunAttempt | null, error: MillraceError | null): void {
    const { board, threads } = this.context;
    if (run) {
      board.attempted(this.id);
      threads.began(this.id, config.sink.webhook ? ["replication", "webhook"] : ["replication"]);
      this.desk.attach(run);
    } else {
      threads.ended(this.id);
      board.attemptEnded(this.id);
      this.desk.detach(error);
    }
  }

  #roundsOf(stored: StoredConnector): SnapshotRounds | null {
    if (!copiesInRounds(stored.config)) return null;
    const { connectors } = this.context.state;
    const records = {
      begin: (at: Date) => connectors.beginRound(stored.id, stored.runId, at),
      end: (at: Date) => connectors.endRound(stored.id, stored.runId, at),
    };
    return new SnapshotRounds(stored, records, this.context.nowMs);
  }

  async #stopRun(): Promise<void> {
    const loop = this.#loop;
    if (!loop) return;
    loop.stop();
    await loop.ended;
    this.#loop = null;
  }

  #events(runId: string): RunEvents {
    const { board, state, threads } = this.context;
    const log = this.#log.child({ run: runId });
    return {
      status: (component, status) => board.report(this.id, runId, component, status),
      initialized: () => state.connectors.markInitialized(this.id, runId),
      metrics: (metrics) => board.measured(this.id, runId, metrics),
      pulse: (thread, loopDelayMs) => threads.heard(this.id, thread, loopDelayMs),
      setAside: (tables) => board.setAside(this.id, runId, tables),
      claimTask: (taskId) => this.desk.claim(taskId),
      taskProgress: (taskId, progress) => this.desk.progress(taskId, progress),
      taskEnded: (taskId, error) => this.desk.ended(taskId, error),
      loadRecord: (owner) => this.#records(owner).load(this.id),
      saveRecord: (owner, text, parts) => this.#records(owner).save(this.id, text, parts),
      log: ({ level, message, fields }) => log[level](fields, message),
    };
  }

  #records(owner: RecordOwner): RecordStore {
    const { sourceRecords, sinkRecords } = this.context.state;
    return owner === "source" ? sourceRecords : sinkRecords;
  }

  /** Forgets how far the connector got and what it has at the source; the next round starts its run. */
  async #beginAnew(stored: StoredConnector, cleanup: ConnectorConfig): Promise<void> {
    // The next run makes slot and publication anew in any case, so a source that is away does not stand in the way.
    const isDropped = await this.#drop(cleanup, dropMs);
    if (!isDropped && this.#interrupt.signal.aborted) return;
    for (const owner of ["source", "sink"] as const) await this.#records(owner).remove(stored.id);
    await this.context.state.connectors.update(stored.id, { initialized: false, ...noRound, cleanup: null });
    this.#leftBehind = null;
    this.#isStale = true;
  }

  async #delete(stored: StoredConnector, deletion: "wait" | "force"): Promise<void> {
    if (this.#leftBehind === null) this.#rest(stored, { shutdown: {} });
    const boundMs = deletion === "force" ? forcedDropMs : dropMs;
    // What was left at another source, too: nobody would look after it any more.
    const configs = [stored.config, ...(stored.cleanup ? [stored.cleanup] : [])];
    const dropped = await Promise.all(configs.map((config) => this.#drop(config, boundMs)));
    if (dropped.includes(false)) {
      // Asked for something meanwhile, or at the end of the service: the next round, or the next start, does it.
      if (this.#interrupt.signal.aborted) return;
      if (deletion === "wait") return this.#deleteLater(stored);
    }
    await this.#dropAtSink(stored.config);
    await this.context.state.connectors.remove(stored.id);
    this.#log.info("connector deleted");
    this.#forget();
  }

  /** Stopped, and not gone yet: the status says what that waits for. */
  #deleteLater({ runId }: StoredConnector): void {
    const reason = `The deletion waits for the source: ${this.#leftBehind} ForceDelete does not wait.`;
    const status: Status = { state: { shutdown: {} }, status: { warning: { reason } } };
    this.context.board.report(this.id, runId, "Connector", status);
    this.#pokeLater();
  }

  /** One try. Whether it worked; if not, the log says what is left behind and how to drop it. */
  async #drop(config: ConnectorConfig, boundMs: number): Promise<boolean> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(boundMs), this.#interrupt.signal]);
      await this.context.dropSourceObjects(config, signal);
      return true;
    } catch (error) {
      if (this.#interrupt.signal.aborted) return false;
      const { code, message } = toMillraceError(error);
      // Tried every few seconds: the same thing is told once.
      if (this.#leftBehind === message) return false;
      this.#leftBehind = message;
      const slot = slotName(config.id);
      const commands = [
        `SELECT pg_drop_replication_slot('${slot}')`,
        `DROP PUBLICATION IF EXISTS "${slot}", "${slot}$append"`,
      ];
      this.#log.warn(
        { code, reason: message, slot, commands },
        "slot and publication are left behind at the source",
      );
      return false;
    }
  }

  /** Nothing at the sink is in anybody's way: one try. */
  async #dropAtSink(config: ConnectorConfig): Promise<void> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(forcedDropMs), this.#interrupt.signal]);
      await this.context.dropSinkObjects(config, signal);
    } catch (error) {
      const { code, message } = toMillraceError(error);
      this.#log.warn(
        { code, reason: message },
        "copies that were not complete may be left behind at the sink",
      );
    }
  }

  #pokeLater(): void {
    if (!this.#closed) this.#retryTimer = setTimeout(() => this.poke(), againMs);
  }

  #forget(): void {
    this.context.board.forget(this.id);
    // A connector of the same id may have been stored meanwhile: then there is more to do.
    if (!this.#isStale) this.gone();
  }
}
