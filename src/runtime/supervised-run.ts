// Makes the run of a connector that this replica holds: what its attempts report goes to the board and the tasks, what they store
// goes to the state, under the holder's term.

import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { ParkedMessage } from "../connector/parking.ts";
import type { HistoryComponent } from "../connector/status.ts";
import { withCommands } from "../connector/status-commands.ts";
import type { Term } from "../connector/term.ts";
import { isOfSink, isOfSource } from "../errors/error-codes.ts";
import { leaseLost } from "../errors/lease-lost.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import type { State } from "../state/open-state.ts";
import type { StoredConnector } from "../state/stores/connector-store.ts";
import type { RecordStore } from "../state/stores/record-store.ts";
import { deliveryKind, type RunAttempt, type RunEvents } from "./run/connector-run.ts";
import { RunLoop } from "./run/run-loop.ts";
import { SnapshotRounds } from "./run/snapshot-rounds.ts";
import type { StatusBoard } from "./status/status-board.ts";
import type { TaskDispatcher } from "./task-dispatcher.ts";
import type { RecordOwner, RunRequest } from "./threads/messages.ts";
import type { ThreadWatch } from "./threads/thread-watch.ts";

export interface RunContext {
  readonly state: State;
  readonly board: StatusBoard;
  readonly threads: ThreadWatch;
  readonly log: Log;
  startRun(request: RunRequest, events: RunEvents): RunAttempt;
  /** Whether this replica may still run the connector. */
  mayRun(connectorId: string): boolean;
  /** An attempt of the run has failed. The board hears next what follows from it. Left out: nobody wants to know. */
  attemptFailed?(connectorId: string): void;
  /** Messages were parked; left out: nobody wants to know. */
  messagesParked?(connectorId: string, messages: readonly ParkedMessage[]): void;
  /** Of the wall clock. */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Starts it. */
export function superviseRun(
  stored: StoredConnector,
  term: Term,
  tasks: TaskDispatcher,
  context: RunContext,
): RunLoop {
  const { id, runId } = stored;
  const { board, log, mayRun, startRun, nowMs, monotonicMs, random, sleep } = context;
  board.begin(id, runId);
  return new RunLoop(stored, {
    term,
    nowMs,
    monotonicMs,
    random,
    sleep,
    startRun,
    mayRun: () => mayRun(id),
    events: runEvents(stored, term, tasks, context),
    rounds: roundsOf(stored, term, context),
    idle: (nextAt, failed) => {
      const state = nextAt ? { scheduled: {} } : { complete: {} };
      // First, so that whoever hears of the status finds the time in it.
      board.nextSnapshot(id, runId, nextAt);
      board.report(id, runId, "Connector", { state, status: failed ? { failed } : { complete: {} } });
    },
    attemptChanged: (run, error) => attemptChanged(stored, run, error, tasks, context),
    wentOn: () => board.tables.refused(id, runId, null),
    failed: (error, health, inMs) => {
      // An internal error is a fault that somebody has to find, so it is logged in full; other errors explain
      // themselves.
      if (error.code === "internal") log.error({ run: runId, error }, "a fault in the run");
      board.failed(id, runId, error);
      board.tables.refused(id, runId, error.table, error.message);
      context.attemptFailed?.(id);
      const state = withCommands(board.status(id).state, error.commands);
      board.report(id, runId, componentOf(error), { state, status: health }, inMs);
    },
  });
}

/** Whose failure it is. */
function componentOf({ code }: MillraceError): HistoryComponent {
  if (isOfSink(code)) return "Target";
  return isOfSource(code) ? "Source" : "Connector";
}

function attemptChanged(
  { id, config }: StoredConnector,
  run: RunAttempt | null,
  error: MillraceError | null,
  tasks: TaskDispatcher,
  { board, threads }: RunContext,
): void {
  if (run) {
    board.attempted(id);
    const kind = deliveryKind(config.sink);
    threads.began(id, kind ? ["replication", kind] : ["replication"]);
    tasks.attach(run);
  } else {
    threads.ended(id);
    board.attemptEnded(id);
    tasks.detach(error);
  }
}

function roundsOf(stored: StoredConnector, term: Term, { state, nowMs }: RunContext): SnapshotRounds | null {
  if (!copiesInRounds(stored.config)) return null;
  const { id, runId } = stored;
  const records = {
    begin: (at: Date) => state.connectors.beginRound(id, runId, at, term),
    end: (at: Date) => state.connectors.endRound(id, runId, at, term),
  };
  return new SnapshotRounds(stored, records, nowMs);
}

function runEvents(
  { id, runId }: StoredConnector,
  term: Term,
  tasks: TaskDispatcher,
  context: RunContext,
): RunEvents {
  const { board, state, threads, log, mayRun } = context;
  const runLog = log.child({ run: runId });
  // The state refuses what comes under an older term. Of a connector that was deleted and made anew meanwhile, it knows none.
  const whileHeld = async <Result>(access: () => Promise<Result>): Promise<Result> => {
    if (!mayRun(id)) throw leaseLost();
    return await access();
  };
  return {
    status: (component, status, retryInMs) => board.report(id, runId, component, status, retryInMs),
    initialized: () => whileHeld(() => state.connectors.markInitialized(id, runId, term)),
    metrics: (metrics) => board.measured(id, runId, metrics),
    pulse: (thread, loopDelayMs) => threads.pulse(id, thread, loopDelayMs),
    setAside: (tables) => board.setAside(id, runId, tables),
    tables: (report) => board.tables.reported(id, runId, report),
    claimTask: (taskId) => tasks.claim(taskId),
    taskProgress: (taskId, progress) => tasks.progress(taskId, progress),
    taskDone: (taskId, result) => tasks.done(taskId, result),
    taskFailed: (taskId, error) => tasks.failed(taskId, error),
    loadRecord: (owner) => whileHeld(() => recordsOf(state, owner).load(id)),
    saveRecord: (owner, text, parts, receipts) =>
      whileHeld(() => recordsOf(state, owner).save(id, text, parts, term, receipts)),
    receipts: (call) => whileHeld(() => state.receipts.answer(id, call, term)),
    parking: async (call) => {
      const answer = await whileHeld(() => state.parking.answer(id, call, term));
      if (call.kind === "park") context.messagesParked?.(id, call.messages);
      return answer;
    },
    log: ({ level, message, fields }) => runLog[level](fields, message),
  };
}

function recordsOf({ sourceRecords, sinkRecords }: State, owner: RecordOwner): RecordStore {
  return owner === "source" ? sourceRecords : sinkRecords;
}
