// One receipt: a request to the receiver, or the messages of one table that were delivered together, and what became of it.

import type { KeptRows } from "./receipt-rows.ts";

/**
 * - `delivered`: the receiver has it.
 * - `refused`: the receiver refused it for ever, and the run ended with it.
 * - `exhausted`: its retries were used up, and the run ended with it.
 * - `parked`: it was set aside, or an attempt to send it again was refused.
 * - `cut`: it was refused, and goes in parts, which have receipts of their own.
 */
export const outcomes = ["delivered", "refused", "exhausted", "parked", "cut"] as const;
export type Outcome = (typeof outcomes)[number];

export interface Receipt {
  readonly schema: string;
  readonly table: string;
  /** Kafka's topic. */
  readonly topic?: string;
  /** The Idempotency-Key; null: each row is a message with its own. */
  readonly key: string | null;
  readonly outcome: Outcome;
  /** 0: it was not tried, as it waits behind a parked one. */
  readonly attempts: number;
  /** Of the last answer; 0: there was none, or answers have none. */
  readonly status: number;
  /** How long the last attempt took. */
  readonly ms: number;
  /** In ms since 1970-01-01 UTC. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  readonly rows: KeptRows;
}
