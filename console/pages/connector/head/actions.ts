// What can be done to a connector in its present state. Pure. action-texts.ts says what each will do.

import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../../../src/connector/status.ts";
import { sinkKind } from "../../../connector/endpoints.ts";
import { skipsCopies, streams } from "../../../connector/replication.ts";
import { type ActionCommand, type ActionText, actionText } from "./action-texts.ts";

type Config = GivenConnector["connector"];

export interface Action {
  readonly command: ActionCommand;
  readonly label: string;
  /** The one that the state calls for. */
  readonly isMain: boolean;
  readonly isDangerous: boolean;
  /** What to say before; null: it may simply be done. */
  readonly question: ActionText | null;
}

/** Codes of errors after which the stream cannot go on from where it was: only a copy of everything helps. */
export const lossCodes: readonly string[] = [
  "slot_missing",
  "slot_invalidated",
  "slot_ahead",
  "source_behind",
  "source_replaced",
  "checkpoint_missing",
];

/** Those after which a Postgres sink can go on with a new slot: its rows are compared with the source's. */
export const resumableCodes: readonly string[] = [
  "slot_missing",
  "slot_invalidated",
  "slot_ahead",
  "source_behind",
];

/** It is being deleted, and waits for its source: nothing else can be done to it any more. */
export function isDeletionWaiting({ state, status }: ConnectorStatus): boolean {
  return state.shutdown !== undefined && status.retry !== undefined;
}

export function actionsFor({ connector, status }: GivenConnector): readonly Action[] {
  const main = mainCommand(connector, status);
  return commandsFor(connector, status).map((command) => {
    const isAgain = copiesAgain(status) && (command === "Start" || command === "Restart");
    return {
      command,
      label: isAgain ? "Copy again now" : labels[command],
      isMain: command === main,
      isDangerous: command === "ReInitialize" || command === "Delete" || command === "ForceDelete",
      question: command === "Start" && !isAgain ? null : actionText(command, connector, isAgain),
    };
  });
}

const labels: Readonly<Record<ActionCommand, string>> = {
  Start: "Start",
  Stop: "Stop",
  Restart: "Restart",
  Resume: "Resume and repair",
  ReInitialize: "Copy everything anew",
  Delete: "Delete",
  ForceDelete: "Delete without the source",
};

function commandsFor(connector: Config, status: ConnectorStatus): readonly ActionCommand[] {
  const { state, status: health } = status;
  if (isDeletionWaiting(status)) return ["ForceDelete"];
  // A disabled connector does not run whatever it is told: its configuration says so.
  if (state.disabled) return ["Delete"];
  if (isResumable(connector, status)) return ["Resume", "Start", "ReInitialize", "Delete"];
  if (state.shutdown || health.failed || state.complete) return ["Start", "ReInitialize", "Delete"];
  return ["Stop", "Restart", "ReInitialize", "Delete"];
}

function mainCommand(connector: Config, status: ConnectorStatus): ActionCommand | null {
  const { state, status: health, last_error: lastError } = status;
  if (isDeletionWaiting(status)) return "ForceDelete";
  if (isResumable(connector, status)) return "Resume";
  if (health.failed) return lossCodes.includes(lastError?.code ?? "") ? "ReInitialize" : "Start";
  return state.shutdown ? "Start" : null;
}

/** The slot is lost, and the sink's rows can be compared with the source's. */
export function isResumable(
  connector: Config,
  { state, status, last_error: lastError }: ConnectorStatus,
): boolean {
  const isOver = status.failed !== undefined || state.shutdown !== undefined;
  const isLost = resumableCodes.includes(lastError?.code ?? "");
  return (
    isOver && isLost && sinkKind(connector) === "Postgres" && streams(connector) && !skipsCopies(connector)
  );
}

/** Its copies are done: to begin a run is to copy everything. */
function copiesAgain({ state, status }: ConnectorStatus): boolean {
  return !status.failed && (state.complete !== undefined || state.scheduled !== undefined);
}
