// Drops what a connector has made at its source and its sink, and tells whether there may be anything. When to do so, and
// whether to wait for it, is the caller's.

import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { dropsAtSource, slotName } from "../connector/connector-id.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import type { DroppedBy } from "../source/source.ts";
import { tellsOfObjects } from "../source/source-state.ts";
import type { State } from "../state/open-state.ts";
import type { StoredConnector } from "../state/stores/connector-store.ts";

export interface CleanupContext {
  readonly state: State;
  readonly log: Log;
  /** Drops the slot and the publications that the service created for this connector. */
  dropSourceObjects(connector: ConnectorConfig, signal: AbortSignal, by?: DroppedBy): Promise<void>;
  dropSinkObjects(connector: ConnectorConfig, signal: AbortSignal): Promise<void>;
}

export class ConnectorCleanup {
  /** Why the last attempt at a source failed; null: it did not. */
  failure: MillraceError | null = null;

  constructor(private readonly context: CleanupContext) {}

  /** Makes one attempt and returns whether it succeeded. If not, the log says what is left and how to drop it. */
  async drop(
    config: ConnectorConfig,
    boundMs: number,
    interrupt: AbortSignal,
    by?: DroppedBy,
  ): Promise<boolean> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(boundMs), interrupt]);
      await this.context.dropSourceObjects(config, signal, by);
      return true;
    } catch (error) {
      if (interrupt.aborted) return false;
      const failure = toMillraceError(error);
      const { code, message } = failure;
      const isKnown = this.failure?.message === message;
      this.failure = failure;
      // It is tried every few seconds: log the same failure once.
      if (isKnown) return false;
      this.context.log.warn(
        { code, reason: message, slot: slotName(config.id), commands: dropsAtSource(config.id) },
        "slot and publication are left behind at the source",
      );
      return false;
    }
  }

  /** Makes one attempt only: objects that are left at the sink disturb nobody. */
  async dropAtSink(config: ConnectorConfig, boundMs: number, interrupt: AbortSignal): Promise<void> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(boundMs), interrupt]);
      await this.context.dropSinkObjects(config, signal);
    } catch (error) {
      const { code, message } = toMillraceError(error);
      this.context.log.warn(
        { code, reason: message },
        "a checkpoint, or copies that were not complete, may be left behind at the sink",
      );
    }
  }
}

/**
 * Whether a run may have made something at the source. None has where it was never reached, or only copies were read.
 * Earlier versions of the service kept no record of it before they had begun to stream.
 */
export async function mayFindObjects(state: State, stored: StoredConnector): Promise<boolean> {
  const hasStreamed = stored.initialized && !configsOf(stored).every(copiesInRounds);
  if (hasStreamed) return true;
  const record = await state.sourceRecords.load(stored.id);
  return record !== null && tellsOfObjects(record.text);
}

/** What the connector is, and what it was before where that is still to be cleaned up. */
export function configsOf({ config, cleanup }: StoredConnector): readonly ConnectorConfig[] {
  return cleanup ? [config, cleanup] : [config];
}
