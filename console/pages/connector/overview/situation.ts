// What somebody should know about a connector's state, and what mends it. Pure.

import type { ConnectorStatus, SetAsideTable } from "../../../../src/connector/status.ts";
import type { Tone } from "../../../connector/condition.ts";
import { behindWords, copiesSeveral } from "../../../connector/condition.ts";
import type { KnownConnector } from "../../../connector/known-connector.ts";
import { needyTables } from "../../../connector/needy-tables.ts";
import { streams } from "../../../connector/replication.ts";
import { phaseWords } from "../../../connector/status-words.ts";
import { grouped } from "../../../text/numbers.ts";
import { isDeletionWaiting, isResumable, lossCodes } from "../head/actions.ts";
import { withoutCopiesOf } from "./snapshot-remedy.ts";

export interface Situation {
  readonly tone: Tone;
  readonly title: string;
  /** The service's own words: what is wrong. */
  readonly reason: string | null;
  /** What to do, where the reason does not say. */
  readonly advice: string | null;
  /** SQL, ready to paste. */
  readonly commands: readonly string[];
}

export function situationOf({ connector, status, isBehind }: KnownConnector): Situation {
  const { state, status: health, progress } = status;
  const commands = state.initialize?.commands ?? [];
  const phase = phaseWords(state);
  const told = { advice: null, commands };
  if (isDeletionWaiting(status))
    return {
      ...told,
      tone: "bad",
      title: "The deletion waits for the source",
      reason: health.retry?.reason ?? null,
    };
  if (health.failed)
    return {
      tone: "bad",
      title: `Failed while ${lowerFirst(phase)}`,
      reason: health.failed.reason,
      commands,
      advice: failureAdvice(connector, status),
    };
  if (health.retry)
    return {
      tone: "bad",
      title: `${phase}: trying again, attempt ${health.retry.attempt}`,
      commands,
      reason: health.retry.reason,
      advice: "It goes on by itself once the cause is gone.",
    };
  const warned = warningBeside((health.warning ?? health.skipped)?.reason, status);
  if (warned) return { ...told, tone: "warning", title: `${phase}, with a warning`, reason: warned };
  if (isBehind)
    return {
      tone: "warning",
      title: `Streaming changes, ${behindWords(progress?.lag_seconds ?? null)}`,
      reason: null,
      commands,
      advice: "The sink takes less than comes, or nothing. Doctor looks for the cause.",
    };
  const isCopying = state.snapshot !== undefined && copiesSeveral(progress);
  return {
    ...told,
    ...butForSetAside(calm(connector, status, isCopying ? "Copying tables" : phase), status),
  };
}

type Calm = Pick<Situation, "tone" | "title" | "reason" | "advice">;

/** All is not well while a table waits: what it waits for is told apart. */
function butForSetAside(situation: Calm, status: ConnectorStatus): Calm {
  const tables = needyTables(status);
  if (tables.length === 0) return situation;
  const waiting = tables.length === 1 ? "1 table waits" : `${grouped(tables.length)} tables wait`;
  return { ...situation, tone: "warning", title: `${situation.title}, but ${waiting} for you` };
}

function failureAdvice(connector: KnownConnector["connector"], status: ConnectorStatus): string {
  const { last_error: lastError } = status;
  if (isResumable(connector, status))
    return "The stream cannot go on from where it was. Resume and repair makes another slot, and copies only the rows that differ.";
  return lossCodes.includes(lastError?.code ?? "")
    ? "The stream cannot go on from where it was. Copy everything anew makes source and sink equal again."
    : "Mend the cause, then press Start: it goes on where it stopped, and nothing is skipped.";
}

function calm(connector: KnownConnector["connector"], { state }: ConnectorStatus, phase: string): Calm {
  const keepsLog = streams(connector) ? "Its slot makes the source keep its log meanwhile." : null;
  if (state.shutdown) return { tone: "idle", title: phase, reason: null, advice: keepsLog };
  if (state.disabled) {
    const advice = `Its configuration says that it does not run: Edit enables it. ${keepsLog ? "Its slot, if it has one, makes the source keep its log meanwhile." : ""}`;
    return { tone: "idle", title: phase, reason: null, advice: advice.trim() };
  }
  if (state.scheduled)
    return {
      tone: "good",
      title: phase,
      reason: null,
      advice: "Everything is copied. It is copied again at its time.",
    };
  const isGood = state.realtime || state.scheduled || state.complete;
  return { tone: isGood ? "good" : "busy", title: phase, reason: null, advice: null };
}

/** The warning without what it says of tables that are set aside: they are told apart, each with its SQL. */
function warningBeside(
  reason: string | undefined,
  { tables_set_aside: tables }: ConnectorStatus,
): string | null {
  if (!reason || !tables) return reason ?? null;
  const others = tables
    .flatMap(setAsideSentences)
    .reduce((text, sentence) => text.replace(sentence, ""), reason)
    .replace(/\d+ more tables are set aside\./, "");
  return withoutCopiesOf(tables, others).trim() || null;
}

/** As a run words them. */
function setAsideSentences({ schema, name, reason, commands }: SetAsideTable): string[] {
  const table = `Table ${quotedIfOdd(schema)}.${quotedIfOdd(name)}`;
  const sql = commands.map((command) => `${command.replace(/;\s*$/, "")};`).join(" ");
  return [
    `${table} is set aside, and the others go on: ${reason} Run at the sink: ${sql} The table is copied again then.`,
    `${table} is not copied. ${reason}`,
    `${table} was set aside. ${reason}`,
  ];
}

function quotedIfOdd(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** The last error of the run, where it is over. */
export function pastError({
  status,
  last_error: last,
}: ConnectorStatus): ConnectorStatus["last_error"] | null {
  return last && !isFailing(status) ? last : null;
}

/** By it docs/errors.md tells more; null: nothing fails now. */
export function presentCode({ status, last_error: last }: ConnectorStatus): string | null {
  return last && isFailing(status) ? last.code : null;
}

function isFailing({ failed, retry }: ConnectorStatus["status"]): boolean {
  return (failed ?? retry) !== undefined;
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
