// Findings from a connector's own status. Pure.

import type { ParkedTotal } from "../connector/parked-message.ts";
import { type Finding, fine } from "../connector/service/diagnosis.ts";
import type { ConnectorStatus } from "../connector/status.ts";
import { lossCodes, resumableCodes } from "../errors/error-codes.ts";

const maxLagSeconds = 60;

/** `isResumable`: a lost slot can be made again without a copy of everything. */
export function statusFindings(id: string, status: ConnectorStatus, isResumable = false): Finding[] {
  return [...healthFindings(id, status, isResumable), ...lagFindings(status), ...setAsideFindings(status)];
}

export function parkedFindings(id: string, parked: ParkedTotal | undefined): Finding[] {
  if (!parked || parked.messages === 0) return [];
  const what = parked.messages === 1 ? "1 message is" : `${parked.messages} messages are`;
  const finding = `${what} parked: they were refused, or wait behind one that was. Repair what refuses them, then have them sent again.`;
  const commands = [`millrace parked list ${id}`, `millrace parked retry ${id}`];
  return [{ about: "status", severity: "warning", finding, commands }];
}

function healthFindings(
  id: string,
  { state, status, last_error: lastError }: ConnectorStatus,
  isResumable: boolean,
): Finding[] {
  const [phase = ""] = Object.keys(state);
  const about = "status";
  if (status.failed) {
    const finding = `It has stopped in ${phase}: ${status.failed.reason}`;
    return [{ about, severity: "failed", finding, commands: remediesOf(id, lastError?.code, isResumable) }];
  }
  if (status.retry) {
    const { attempt, reason } = status.retry;
    const finding = `It is in ${phase} and tries again (attempt ${attempt}): ${reason}`;
    return [{ about, severity: "failed", finding, commands: [] }];
  }
  if (status.warning) {
    return [{ about, severity: "warning", finding: status.warning.reason, commands: [] }];
  }
  if (state.shutdown) {
    const finding = "It is stopped, and its slot keeps the source's log meanwhile.";
    return [{ about, severity: "warning", finding, commands: [`millrace connectors start ${id}`] }];
  }
  if (state.disabled) {
    const finding = "It is disabled, and its slot, if it has one, keeps the source's log meanwhile.";
    return [{ about, severity: "warning", finding, commands: [] }];
  }
  return [fine(about, `It is in ${phase}.`)];
}

/** The commands that help after an error of this code. */
function remediesOf(id: string, code: string | undefined, isResumable: boolean): string[] {
  if (!lossCodes.has(code ?? "")) return [`millrace connectors start ${id}`];
  const ways = isResumable && resumableCodes.has(code ?? "") ? ["resume", "reinitialize"] : ["reinitialize"];
  return ways.map((way) => `millrace connectors ${way} ${id}`);
}

function lagFindings({ progress }: ConnectorStatus): Finding[] {
  if (!progress?.lag_seconds || progress.lag_seconds < maxLagSeconds) return [];
  const finding =
    `It is ${Math.round(progress.lag_seconds)} s behind: the sink takes less than comes, or nothing. ` +
    "See what it waits for; millrace_write_seconds at /metrics tells how long the sink takes for a batch.";
  return [{ about: "status", severity: "warning", finding, commands: [] }];
}

function setAsideFindings({ tables_set_aside: tables = [] }: ConnectorStatus): Finding[] {
  return tables.map(({ schema, name, reason, commands }) => ({
    about: "status",
    severity: "warning",
    finding: `Table ${schema}.${name} is set aside: ${reason}`,
    commands,
  }));
}
