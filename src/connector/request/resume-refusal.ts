// Decides whether a connector can be given the command Resume, and whether its run can still carry it out. Pure.

import { resumableCodes } from "../../errors/error-codes.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { ConnectorConfig } from "../connector.ts";
import type { ConnectorStatus } from "../status.ts";

/** Why a command that begins anew is refused. */
export const disabledText = "The connector is disabled: enable it first.";

export interface ResumeFacts {
  /** It was given the command before, and has no new slot yet. */
  readonly isAsked: boolean;
  /** Its next run has no slot and checkpoint to go on from, or may not: it makes new ones, and copies everything. */
  readonly beginsAnew: boolean;
}

/** Null: it can. */
export function refusalOfResume(
  config: ConnectorConfig,
  status: ConnectorStatus,
  facts: ResumeFacts,
): MillraceError | null {
  const unsupported = unsupportedResume(config);
  if (unsupported !== null) return unsupported;
  const conflict = whyNotNow(config, status, facts);
  return conflict === null ? null : new MillraceError("conflict", conflict);
}

/** Whether a lost slot of the connector can be resumed from at all. */
export function canResume(config: ConnectorConfig): boolean {
  return whyUnsupported(config) === null;
}

/** Why a connector of this configuration never resumes; null: it can. The configuration may have changed since the command was given. */
export function unsupportedResume(config: ConnectorConfig): MillraceError | null {
  const reason = whyUnsupported(config);
  return reason === null ? null : new MillraceError("unsupported_kind", reason);
}

function whyUnsupported({ source, sink }: ConnectorConfig): string | null {
  const replication = source.postgres?.replication_type.logical_replication;
  if (!sink.postgres)
    return "Resume compares the sink's rows with the source's, and nobody can read what a webhook or Kafka has received: ReInitialize sends everything again.";
  if (!replication)
    return "Resume makes a lost slot again, and this connector has none: Start copies everything again.";
  if (replication.skip_snapshots)
    return "Resume repairs copies, and this connector makes none by itself (skip_snapshots): ReInitialize begins with the changes from now on.";
  if (sink.postgres.connection.max_pool_size === 1)
    return "Resume takes a second session at the sink: set max_pool_size of the sink's connection to 3 or more, or send ReInitialize.";
  return null;
}

function whyNotNow(
  { disabled }: ConnectorConfig,
  status: ConnectorStatus,
  { isAsked, beginsAnew }: ResumeFacts,
): string | null {
  const { state, status: health, progress, last_error: lastError } = status;
  if (disabled) return disabledText;
  if (beginsAnew)
    return (
      "There is nothing to go on from: the connector copies everything. It is new, was told to ReInitialize, or was given another host, port " +
      "or database, which counts as another one even if the server is the same. Where it is stopped or failed, Start it."
    );
  const lostForGood = health.failed || state.shutdown ? whatIsGone(lastError?.code) : null;
  // Also if it was asked before: the run has met this, and the next one would meet it again.
  if (lostForGood !== null) return lostForGood;
  // Nobody knows whether its slot is there. If it is, all is compared for nothing.
  if (state.shutdown) return null;
  if (health.failed && (isAsked || resumableCodes.has(lastError?.code ?? ""))) return null;
  if (isAsked) return "The connector was told to resume already, and is about to.";
  if (health.failed) return "The connector has not lost its slot: mend what its status says, then Start it.";
  if (!progress?.resume) return "The connector runs, and has not lost its slot.";
  const { tables, tables_done: done } = progress.resume;
  return `The connector is resuming already: ${done} of ${tables} tables are done.`;
}

/** What a comparison would need, and a failure of this code says is gone; null: nothing. */
function whatIsGone(code: string | undefined): string | null {
  switch (code) {
    case "source_replaced":
      return "Another database cluster answers at the source's address, so that its tables need not be those of before: ReInitialize copies them.";
    case "checkpoint_missing":
      return "The sink no longer knows which tables it has: ReInitialize copies them.";
    default:
      return null;
  }
}
