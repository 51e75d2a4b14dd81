// One connector's run with the real worker threads, the real rules of trying again and no service around them: what it
// reports is kept, and its records are held in memory, or by whoever hands it a lease.

import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import { slotName } from "../../../src/connector/connector-id.ts";
import { resolveConnector } from "../../../src/connector/request/resolve-connector.ts";
import type { ChangedParts, SavedRecord } from "../../../src/connector/saved-record.ts";
import type { SetAsideTable, Status } from "../../../src/connector/status.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { ConnectorRun, type RunEvents, workerThreads } from "../../../src/runtime/run/connector-run.ts";
import { type FailureHealth, RunLoop } from "../../../src/runtime/run/run-loop.ts";
import type { RecordOwner } from "../../../src/runtime/threads/messages.ts";
import { dropSourceObjects } from "../../../src/source/registry.ts";
import { noRound } from "../../../src/state/stores/connector-store.ts";
import { waitFor } from "../wait-for.ts";
import { MemoryParking } from "../webhook/memory-parking.ts";
import { withSave } from "../webhook/memory-record.ts";

export interface LiveFailure {
  readonly error: MillraceError;
  readonly health: FailureHealth;
  readonly atMs: number;
}

/** The right to run the connector, and what the installation has stored of it. */
export interface LiveLease {
  readonly term: number;
  readonly createdAt: Date;
  mayRun(): boolean;
  readonly state: LiveState;
}

/** Whoever writes under a term that is over is refused. */
export interface LiveState {
  readonly initialized: boolean;
  begun(): Promise<void>;
  load(owner: RecordOwner): Promise<SavedRecord | null>;
  save(owner: RecordOwner, text: string, parts: ChangedParts): Promise<void>;
}

class MemoryState implements LiveState {
  initialized = false;
  readonly #records = new Map<RecordOwner, SavedRecord>();

  constructor(before: MemoryState | null) {
    if (!before) return;
    this.initialized = before.initialized;
    for (const [of, record] of before.#records) this.#records.set(of, record);
  }

  async begun(): Promise<void> {
    this.initialized = true;
  }

  async load(owner: RecordOwner): Promise<SavedRecord | null> {
    return this.#records.get(owner) ?? null;
  }

  async save(owner: RecordOwner, text: string, parts: ChangedParts): Promise<void> {
    this.#records.set(owner, withSave(this.#records.get(owner) ?? null, text, parts));
  }
}

export class LiveRun implements AsyncDisposable {
  readonly failures: LiveFailure[] = [];
  status: Status | null = null;
  /** As the connector's status lists them. */
  setAside: readonly SetAsideTable[] = [];
  readonly #config: ConnectorConfig;
  readonly #state: LiveState;
  readonly #parking = new MemoryParking();
  readonly #workers = workerThreads();
  #loop: RunLoop;

  private constructor(
    request: ConnectorRequest,
    before: LiveRun | null,
    private readonly lease: LiveLease | null = null,
  ) {
    const memory = before && before.#state instanceof MemoryState ? before.#state : null;
    this.#state = lease?.state ?? new MemoryState(memory);
    this.#config = resolveConnector(request, { id: request.id, stored: null });
    this.#loop = this.#begin();
  }

  /** Begins at once, as the command Start does. */
  static start(request: ConnectorRequest): LiveRun {
    return new LiveRun(request, null);
  }

  /** As a replica begins that has taken the connector over. */
  static under(lease: LiveLease, request: ConnectorRequest): LiveRun {
    return new LiveRun(request, null, lease);
  }

  /** Another run of the same connector, as if by another service with a copy of the state. */
  static after(before: LiveRun, request: ConnectorRequest): LiveRun {
    return new LiveRun(request, before);
  }

  get slot(): string {
    return slotName(this.#config.id);
  }

  get isOver(): boolean {
    return this.#loop.isOver;
  }

  /** Another run of the same connector, when the last one is over. */
  async restart(): Promise<void> {
    await this.stop();
    this.#loop = this.#begin();
  }

  /** As the command Resume does, when the last run is over. */
  async resume(): Promise<void> {
    await this.stop();
    this.#loop = this.#begin(true);
  }

  async stop(): Promise<void> {
    this.#loop.stop();
    await this.#loop.ended;
  }

  async untilRealtime(timeoutMs = 60_000): Promise<void> {
    const isThere = () => this.status?.state.realtime !== undefined && this.status.status.retry === undefined;
    await waitFor("the stream", isThere, { timeoutMs }).catch((error: unknown) => {
      const status = JSON.stringify(this.status);
      throw new Error(`${error}; the last failure: ${this.failures.at(-1)?.error}; the status: ${status}`);
    });
  }

  async untilFailed(timeoutMs = 60_000): Promise<LiveFailure> {
    await waitFor("the end of the run", () => this.isOver, { timeoutMs });
    const last = this.failures.at(-1);
    if (!last) throw new Error("the run ended without a failure");
    return last;
  }

  /** Stops it, and drops what it made at the source while that is there. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await dropSourceObjects(this.#config, AbortSignal.timeout(20_000)).catch(() => {});
  }

  #begin(resumes = false): RunLoop {
    const id = this.#config.id;
    const stored = {
      id,
      given: this.#config,
      config: this.#config,
      slotName: slotName(id),
      runId: Bun.randomUUIDv7(),
      createdAt: this.lease?.createdAt ?? new Date(),
      stopped: false,
      deletion: null,
      cleanup: null,
      initialized: this.#state.initialized,
      resumes,
      ...noRound,
    };
    return new RunLoop(stored, {
      startRun: (request, events) => new ConnectorRun(request, events, this.#workers),
      events: this.#events(),
      rounds: null,
      term: this.lease?.term ?? null,
      mayRun: () => this.lease?.mayRun() ?? true,
      attemptChanged: () => {},
      idle: () => {},
      wentOn: () => {},
      failed: (error, health) => {
        this.failures.push({ error, health, atMs: performance.now() });
        // As the service shows it until the next attempt speaks.
        this.status = { state: this.status?.state ?? { start: {} }, status: health };
      },
      nowMs: Date.now,
      monotonicMs: () => performance.now(),
      random: Math.random,
      sleep: async (ms, signal) => {
        const over = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => over.resolve(), { once: true });
        await Promise.race([Bun.sleep(ms), over.promise]);
      },
    });
  }

  #events(): RunEvents {
    return {
      status: (_, status) => {
        this.status = status;
      },
      initialized: () => this.#state.begun(),
      metrics: () => {},
      pulse: () => {},
      setAside: (tables) => {
        this.setAside = tables;
      },
      tables: () => {},
      claimTask: async () => false,
      taskProgress: () => {},
      taskDone: () => {},
      taskFailed: () => {},
      loadRecord: (owner) => this.#state.load(owner),
      saveRecord: (owner, text, parts) => this.#state.save(owner, text, parts),
      parking: async (call) => this.#parking.answer(call),
      receipts: async () => {},
      log: () => {},
    };
  }
}
