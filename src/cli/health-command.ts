// The `health` command, for a container engine's health check, which reads the exit code only.

import { CommandFailure } from "./service-client.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";

/** Throws the reason when the service is not ready. */
export async function showHealth({ client, terminal, json }: CommandContext): Promise<void> {
  const reason = await client.unreadiness();
  if (json) printJson(terminal, { ready: reason === null, ...(reason === null ? {} : { reason }) });
  if (reason !== null) throw new CommandFailure(reason);
  if (!json) terminal.print("ready");
}
