// SQL for the user in a connector's status.

import type { Status } from "./status.ts";

/** `state` with SQL that would help, where it has a place for it. `commands`: each without a semicolon. */
export function withCommands(state: Status["state"], commands: readonly string[]): Status["state"] {
  return state.initialize
    ? { initialize: { ...state.initialize, commands: commands.map((sql) => `${sql};`) } }
    : state;
}
