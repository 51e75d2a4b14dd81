// Translates a pipeline's reports into messages and status objects for the main thread.

import { formatLsn } from "../../change/lsn.ts";
import type { HistoryComponent, SetAsideTable as SetAsideStatus, Status } from "../../connector/status.ts";
import { withCommands } from "../../connector/status-commands.ts";
import { toMillraceError } from "../../errors/millrace-error.ts";
import type { OfferedTask, Phase, PhaseHealth, RunReporter } from "../../pipeline/run-reporter.ts";
import type { SetAsideTable } from "../../sink/sink-events.ts";
import type { MainThreadChannel } from "./main-thread-channel.ts";
import type { FromReplicationWorker, ToReplicationWorker, WireError } from "./messages.ts";

type Main = MainThreadChannel<FromReplicationWorker>;

export function workerReporter(main: Main, slot: string): RunReporter {
  return {
    phase(phase, health) {
      const commands = (health.kind === "warning" && health.commands) || [];
      const state = withCommands(stateOf(phase, slot), commands);
      const status: Status = { state, status: healthOf(health) };
      const nextAttempt = health.kind === "retry" && health.inMs !== undefined && { retryInMs: health.inMs };
      main.send({ type: "status", component: componentOf(phase, health), status, ...nextAttempt });
    },
    async initialized() {
      await main.request({ type: "initialized" });
    },
    progress(progress) {
      main.send({ type: "metrics", metrics: progress });
    },
    setAside(tables) {
      main.send({ type: "set aside", tables: tables.map(setAsideTable) });
    },
    tables(report) {
      const tables = report.tables.map((table) => ({ ...table, commands: table.commands.map(pasteable) }));
      main.send({ type: "tables", report: { ...report, tables } });
    },
  };
}

function setAsideTable({
  schema,
  name,
  since,
  reason,
  commands,
  isCopiedAgain,
}: SetAsideTable): SetAsideStatus {
  const sinceLsn = since === null ? {} : { since_lsn: formatLsn(since) };
  const again = isCopiedAgain ? { copied_again: true } : {};
  return { schema, name, ...sinceLsn, reason, commands: commands.map(pasteable), ...again };
}

const pasteable = (command: string) => `${command};`;

/** The task as the pipeline sees it. */
export function offeredTask(
  main: Main,
  { taskId, spec }: Extract<ToReplicationWorker, { type: "task.offer" }>,
): OfferedTask {
  return {
    id: taskId,
    spec,
    claim: async () => (await main.request({ type: "task.claim", taskId })) === "claimed",
    progress: (rows, bytes, estimatedRows) =>
      main.send({ type: "task.progress", taskId, rows, bytes, estimatedRows }),
    done: (result = undefined) => main.send({ type: "task.done", taskId, result: result ?? null }),
    failed: (error) => main.send({ type: "task.failed", taskId, error: wireError(error) }),
  };
}

export function wireError(error: unknown): WireError {
  const { code, message, cause, table, commands } = toMillraceError(error);
  // Our own errors explain themselves. The stack of another error is for the log; of a server's error it might quote a
  // value.
  const stack = code === "internal" && cause instanceof Error ? cause.stack : undefined;
  return {
    code,
    message,
    ...(table && { table }),
    ...(commands.length > 0 && { commands }),
    ...(stack === undefined ? {} : { stack }),
  };
}

function stateOf(phase: Phase, slot: string): Status["state"] {
  switch (phase.name) {
    case "initialize":
      return { initialize: { sub_state: phase.step, commands: [] } };
    case "snapshot":
      return { snapshot: { name: phase.table } };
    case "realtime":
      return { realtime: { name: slot } };
    default:
      return phase satisfies never;
  }
}

function componentOf(phase: Phase, health: PhaseHealth): HistoryComponent {
  if (health.kind === "retry" || (health.kind === "warning" && health.isOfSink)) return "Target";
  return phase.name === "initialize" ? "Connector" : "Source";
}

function healthOf(health: PhaseHealth): Status["status"] {
  switch (health.kind) {
    case "start":
      return { start: {} };
    case "heartbeat":
      return { heartbeat: {} };
    case "complete":
      return { complete: {} };
    case "warning":
      return { warning: { reason: health.reason } };
    case "retry":
      return { retry: { attempt: health.attempt, reason: health.reason } };
    default:
      return health satisfies never;
  }
}
