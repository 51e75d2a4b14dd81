// What a command changes of a connector's record.

import type { Command } from "../connector/connector.ts";
import { disabledText, refusalOfResume } from "../connector/request/resume-refusal.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { type ConnectorChange, noRound, type StoredConnector } from "../state/stores/connector-store.ts";
import type { Statuses } from "./status/statuses.ts";

export interface CommandContext {
  readonly statuses: Pick<Statuses, "isOver" | "status">;
  readonly newRunId: () => string;
}

/** The change of the record that a command makes; null: none. Throws `conflict`, or why the connector cannot resume. */
export function changeFor(
  command: Command,
  stored: StoredConnector,
  { statuses, newRunId }: CommandContext,
): ConnectorChange | null {
  const runId = newRunId();
  // A connector whose round is complete starts another; an incomplete round is continued.
  const round = stored.roundEndedAt === null ? {} : noRound;
  switch (command) {
    case "Start": {
      const isOver = statuses.isOver(stored.id, stored.runId);
      return stored.stopped || isOver ? { stopped: false, runId, ...round } : null;
    }
    case "Stop":
      return stored.stopped ? null : { stopped: true };
    case "Restart":
      return { stopped: false, runId, ...round };
    case "ReIntialize":
    case "ReInitialize":
      // It would drop what there is, and copy nothing before somebody enables it.
      if (stored.config.disabled) throw new MillraceError("conflict", disabledText);
      return { stopped: false, runId, cleanup: stored.config, resumes: false };
    case "Resume": {
      const { config, resumes: isAsked, cleanup, initialized } = stored;
      const facts = { isAsked, beginsAnew: cleanup !== null || !initialized };
      const refusal = refusalOfResume(config, statuses.status(stored), facts);
      if (refusal) throw refusal;
      return { stopped: false, runId, resumes: true };
    }
    // Repeating the command changes nothing.
    case "Delete":
      return stored.deletion ? null : { deletion: "wait" };
    case "ForceDelete":
      return stored.deletion === "force" ? null : { deletion: "force" };
    default:
      return command satisfies never;
  }
}
