// What the command `health` does: what a container's engine asks, which knows exit codes alone.

import { CommandFailure } from "./service-client.ts";
import { type CommandContext, printJson } from "./terminal.ts";

/** Throws with the reason when the service is not ready. */
export async function showHealth({ client, terminal, json }: CommandContext): Promise<void> {
  const reason = await client.unreadiness();
  if (json) printJson(terminal, { ready: reason === null, ...(reason === null ? {} : { reason }) });
  if (reason !== null) throw new CommandFailure(reason);
  if (!json) terminal.print("ready");
}
