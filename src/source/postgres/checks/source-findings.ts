// Examines a connector's slot and its source's clock. It changes nothing there.

import type { Client } from "pg";
import { parseLsn, zeroLsn } from "../../../change/lsn.ts";
import { withPostgres } from "../../../connection/postgres-client.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { slotName } from "../../../connector/connector-id.ts";
import { type Finding, fine } from "../../../connector/service/diagnosis.ts";
import { lossCodes, resumableCodes } from "../../../errors/error-codes.ts";
import type { KeptLog } from "../../source.ts";
import { examineKeptLog } from "../slot/kept-log.ts";
import { readSlotState } from "../slot/slot.ts";
import { judgeSlot } from "../slot/slot-state.ts";

/** What the service knows of a connector that streams. */
export interface KnownSlot {
  readonly connector: string;
  /** The connector has begun: a missing slot is a loss. */
  readonly isBegun: boolean;
  /** A lost slot can be made again without a copy of everything. */
  readonly isResumable: boolean;
  /** The sink's position; null: not known. */
  readonly resumeLsn: string | null;
}

/** More than network latency explains. */
const maxOffsetMs = 2_000;

/** Throws connection errors. */
export async function examinePostgresSource(
  { connection }: PostgresSourceConfig,
  slot: KnownSlot,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  return await withPostgres(connection, "control", signal, "source", async (client) => [
    await examineSlot(client, slot),
    await examineClock(client),
  ]);
}

/** What the server keeps of its log for the connector's slot; null: there is none. Throws connection errors, or `signal.reason`. */
export async function readPostgresLog(
  { connection }: PostgresSourceConfig,
  { connector, isResumable }: Pick<KnownSlot, "connector" | "isResumable">,
  signal: AbortSignal,
): Promise<KeptLog | null> {
  return await withPostgres(connection, "control", signal, "source", (client) =>
    examineKeptLog(client, slotName(connector), isResumable),
  );
}

async function examineSlot(
  client: Client,
  { connector, isBegun, isResumable, resumeLsn }: KnownSlot,
): Promise<Finding> {
  const name = slotName(connector);
  const about = "slot";
  const state = await readSlotState(client, name);
  if (!state.exists && !isBegun) return fine(about, "It is made when the connector begins.");
  const position = resumeLsn ?? state.confirmedFlushLsn;
  const resumeFrom = position === null ? zeroLsn : parseLsn(position);
  const checkpoint = { partial: null, lastVersion: 0n, resumeLsn: resumeFrom };
  const error = judgeSlot(name, state, checkpoint, { isResumable });
  if (error) {
    const ways = [
      ...(isResumable && resumableCodes.has(error.code) ? ["resume"] : []),
      ...(lossCodes.has(error.code) ? ["reinitialize"] : []),
    ];
    const commands = ways.map((way) => `millrace connectors ${way} ${connector}`);
    return { about, severity: "failed", finding: error.message, commands };
  }
  const kept = await examineKeptLog(client, name, isResumable);
  if (kept?.warning) return { about, severity: "warning", finding: kept.warning, commands: [] };
  const megabytes = ((kept?.bytes ?? 0) / 1024 ** 2).toFixed(1);
  return fine(about, `${name} is there, and keeps ${megabytes} MB of the log.`);
}

async function examineClock(client: Client): Promise<Finding> {
  const beforeMs = Date.now();
  const { rows } = await client.query<{ ms: number }>(
    "select extract(epoch from clock_timestamp())::float8 * 1000 as ms",
  );
  return judgeClock(rows[0]?.ms ?? Number.NaN, beforeMs, Date.now());
}

/** `sourceMs` was read between these two times of our clock. Pure. */
export function judgeClock(sourceMs: number, beforeMs: number, afterMs: number): Finding {
  const offsetMs = sourceMs < beforeMs ? sourceMs - beforeMs : Math.max(0, sourceMs - afterMs);
  if (Math.abs(offsetMs) < maxOffsetMs) return fine("clock", "The source's clock and this machine's agree.");
  const [seconds, way] = [(Math.abs(offsetMs) / 1000).toFixed(1), offsetMs > 0 ? "ahead of" : "behind"];
  return {
    about: "clock",
    severity: "warning",
    finding:
      `The source's clock is ${seconds} s ${way} this machine's: lag_seconds and latencies are wrong by that, and a receiver that ` +
      "checks webhook-timestamp may refuse what this machine signs. Let both keep the time of the network.",
    commands: ["timedatectl set-ntp true", "timedatectl status"],
  };
}
