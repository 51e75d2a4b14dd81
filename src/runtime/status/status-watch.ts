// What is told to those who follow the statuses and the measurements of runs.

import type { SetAsideTable, Status } from "../../connector/status.ts";
import type { RunMetrics } from "../threads/messages.ts";

/**
 * Hears what a connector's present run reports, as often as it does, when the board has it already. It must neither
 * block nor throw. It leaves out what does not concern it.
 */
export interface StatusWatch {
  reported?(connectorId: string, status: Status): void;
  /** An attempt of the connector's run begins: its counters start from zero. */
  began?(connectorId: string): void;
  measured?(connectorId: string, metrics: RunMetrics): void;
  /** The attempt has ended with an error. */
  failed?(connectorId: string, code: string): void;
  measuredSlot?(connectorId: string, slot: NonNullable<RunMetrics["slot"]>): void;
  /** All tables that are set aside now. */
  setAside?(connectorId: string, tables: readonly SetAsideTable[]): void;
  /** This replica no longer holds the connector. */
  released?(connectorId: string): void;
  /** The connector is deleted. */
  forget?(connectorId: string): void;
}
