// What the doctor found, in the order in which one reads it. Pure.

import type { Diagnosis } from "../../../../src/connector/service/diagnosis.ts";
import type { Tone } from "../../../connector/condition.ts";
import { plural } from "../../../text/numbers.ts";

const severities = ["failed", "warning", "ok"] as const satisfies readonly Diagnosis["severity"][];

export const severityWords: Readonly<Record<Diagnosis["severity"], readonly [tone: Tone, word: string]>> = {
  failed: ["bad", "Failed"],
  warning: ["warning", "Warning"],
  ok: ["good", "Fine"],
};

/** The worst first; within a severity as the doctor went. */
export function worstFirst(findings: readonly Diagnosis[]): Diagnosis[] {
  return severities.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
}

/** "2 findings need you, 5 are fine" */
export function summaryOf(findings: readonly Diagnosis[]): string {
  const wrong = findings.filter(({ severity }) => severity !== "ok").length;
  const fine = findings.length - wrong;
  if (wrong === 0) return `${plural(fine, "check")}, nothing wrong.`;
  return `${wrong} of ${findings.length} findings ${wrong === 1 ? "needs" : "need"} a look.`;
}

/** What mends it, to be copied at once: there may be a statement for each of a thousand tables. */
export function commandsText(commands: readonly string[]): string {
  return commands.map((command) => (isStatement(command) ? `${command};` : command)).join("\n");
}

/** SQL that lacks its end. The others are commands of a shell. */
function isStatement(command: string): boolean {
  return /^(alter|create|drop|grant|select|set|revoke)\b/i.test(command) && !/;\s*$/.test(command);
}
