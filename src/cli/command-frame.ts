// What all commands that call a running service have in common: their options, their help's last lines, and how they fail.

import type { Command } from "commander";
import { bypassProxy } from "./proxy-bypass.ts";
import { CommandFailure, defaultUrl, readAccess, ServiceClient } from "./service-client.ts";
import { type CommandContext, ownTerminal } from "./text/terminal.ts";
import { plainLines } from "./text/text-table.ts";

export interface CommonFlags {
  readonly url?: string;
  readonly json?: boolean;
}

export type WatchFlags = CommonFlags & { readonly watch?: boolean };

export const access = `
The service is asked at --url, MILLRACE_URL or ${defaultUrl} (MILLRACE_PORT), with MILLRACE_API_TOKEN, or MILLRACE_USERNAME and
MILLRACE_PASSWORD. Exit codes: 0 done, 1 refused, failed or wrongly used, 3 no service there.`;

/** A command with the options that all have. `usage`: its name and arguments. */
export function addTo(command: Command, usage: string, description: string): Command {
  return command
    .command(usage)
    .description(description)
    .option("--url <address>", `the service (default ${defaultUrl})`)
    .option("--json", "for programs");
}

/** Runs `work` for a command. What a user can mend ends the process with a sentence and its exit code. */
export async function run(
  { url, json = false }: CommonFlags,
  work: (context: CommandContext) => Promise<void>,
): Promise<void> {
  process.stdout.on("error", tellUnwritten);
  try {
    const access = readAccess(url, process.env);
    bypassProxy(access.url, process.env);
    await work({ client: new ServiceClient(access), terminal: ownTerminal(), json });
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    console.error(plainLines(`millrace: ${error.message}`));
    process.exitCode = error.exitCode;
  }
}

/** Whoever reads no further, as `head`, has what it wants: the command goes on with its work. */
function tellUnwritten({ code, message }: NodeJS.ErrnoException): void {
  if (code === "EPIPE") return;
  console.error(plainLines(`millrace: The output could not be written: ${message}`));
  process.exitCode ||= 1;
}
