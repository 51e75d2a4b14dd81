// What can be done to a connector in its present state. Pure. action-texts.ts says what each will do.

import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../../../src/connector/status.ts";
import { type ActionCommand, type ActionText, actionText } from "./action-texts.ts";

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

/** It is being deleted, and waits for its source: nothing else can be done to it any more. */
export function isDeletionWaiting({ state, status }: ConnectorStatus): boolean {
  return state.shutdown !== undefined && status.retry !== undefined;
}

export function actionsFor({ connector, status }: GivenConnector): readonly Action[] {
  const main = mainCommand(status);
  return commandsFor(status).map((command) => {
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
  ReInitialize: "Copy everything anew",
  Delete: "Delete",
  ForceDelete: "Delete without the source",
};

function commandsFor(status: ConnectorStatus): readonly ActionCommand[] {
  const { state, status: health } = status;
  if (isDeletionWaiting(status)) return ["ForceDelete"];
  // A disabled connector does not run whatever it is told: its configuration says so.
  if (state.disabled) return ["Delete"];
  if (state.shutdown || health.failed || state.complete) return ["Start", "ReInitialize", "Delete"];
  return ["Stop", "Restart", "ReInitialize", "Delete"];
}

function mainCommand(status: ConnectorStatus): ActionCommand | null {
  const { state, status: health, last_error: lastError } = status;
  if (isDeletionWaiting(status)) return "ForceDelete";
  if (health.failed) return lossCodes.includes(lastError?.code ?? "") ? "ReInitialize" : "Start";
  return state.shutdown ? "Start" : null;
}

/** Its copies are done: to begin a run is to copy everything. */
function copiesAgain({ state, status }: ConnectorStatus): boolean {
  return !status.failed && (state.complete !== undefined || state.scheduled !== undefined);
}
