// The `doctor` command: shows what the service has found, or, where no service answers, what can be seen without it.

import { type Diagnosis, type Finding, fine } from "../connector/service/diagnosis.ts";
import { examineDisk } from "../doctor/disk-space.ts";
import { CommandFailure } from "./service-client.ts";
import { type CommandContext, printJson, type Terminal } from "./text/terminal.ts";
import { oneLine } from "./text/text-table.ts";

/** Throws when something has failed. `dataDirectory` is examined where no service answers. */
export async function showDiagnoses(
  context: CommandContext,
  connector: string | undefined,
  dataDirectory: string,
): Promise<void> {
  const { terminal, json } = context;
  const { found, exitCode } = await examine(context, connector, dataDirectory);
  if (json) printJson(terminal, found);
  else for (const diagnosis of found) print(terminal, diagnosis);
  const failed = found.filter(({ severity }) => severity === "failed").length;
  const warned = found.filter(({ severity }) => severity === "warning").length;
  if (failed > 0) {
    throw new CommandFailure(`${failed} of ${found.length} examinations have failed.`, exitCode);
  }
  if (!json) {
    const attention = warned === 1 ? "1 check needs attention" : `${warned} checks need attention`;
    terminal.print(warned > 0 ? `Nothing has failed; ${attention}.` : "All is well.");
  }
}

async function examine(
  { client }: CommandContext,
  connector: string | undefined,
  dataDirectory: string,
): Promise<{ readonly found: readonly Diagnosis[]; readonly exitCode: 1 | 3 }> {
  const query = connector === undefined ? "" : `?connector_id=${encodeURIComponent(connector)}`;
  try {
    return { found: (await client.call<Diagnosis[]>("GET", `doctor${query}`)).body, exitCode: 1 };
  } catch (error) {
    if (!(error instanceof CommandFailure) || error.exitCode !== 3) throw error;
    const service: Finding = {
      about: "status",
      severity: "failed",
      finding: error.message,
      commands: ["systemctl status millrace", "journalctl -u millrace -n 50"],
    };
    const disk = await examineDisk(dataDirectory);
    const found = [service, disk, fine("state", "What else there is can only be seen by the service.")];
    return { found: found.map((finding) => ({ connector: null, ...finding })), exitCode: 3 };
  }
}

const words = { ok: "ok", warning: "WARNING", failed: "FAILED" } as const;

function print(terminal: Terminal, { connector, about, severity, finding, commands }: Diagnosis): void {
  terminal.print(oneLine(`${words[severity].padEnd(7)}  ${connector ?? "service"}, ${about}: ${finding}`));
  for (const command of commands) terminal.print(oneLine(`           ${command}`));
}
