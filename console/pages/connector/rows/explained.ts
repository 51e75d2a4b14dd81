// What became of a row as a timeline, the newest first. Pure.

import type { Explanation } from "../../../../src/connector/explanation.ts";
import type { Tone } from "../../../connector/condition.ts";

export interface Moment {
  /** RFC 3339; null: now. */
  readonly at: string | null;
  readonly tone: Tone;
  readonly word: string;
  readonly text: string;
  readonly key: string | null;
}

export const stateTones: Readonly<Record<Explanation["state"], Tone>> = {
  Delivered: "good",
  Retrying: "warning",
  Sending: "busy",
  Waiting: "busy",
  Parked: "warning",
  Refused: "bad",
  Discarded: "idle",
  Unknown: "idle",
};

const outcomeTones: Readonly<Record<Explanation["deliveries"][number]["outcome"], Tone>> = {
  delivered: "good",
  refused: "bad",
  exhausted: "bad",
  parked: "warning",
  cut: "idle",
  discarded: "idle",
};

const operations: Readonly<Record<string, string>> = {
  c: "insert",
  u: "update",
  d: "delete",
  r: "copied row",
};

export function moments({ open, deliveries }: Explanation): readonly Moment[] {
  const now = (open ?? []).map((request): Moment => {
    const answer = request.status ? `answered ${request.status}` : (request.error ?? "");
    return {
      at: request.last_at ?? null,
      tone: request.state === "Retrying" ? "warning" : "busy",
      word: request.state.toLowerCase(),
      key: request.idempotency_key,
      text: [operationOf(request.last_change?.op), attemptsOf(request.attempts), answer]
        .filter(Boolean)
        .join(", "),
    };
  });
  const past = deliveries.map(
    ({ at, outcome, status, ms, attempts, change, kafka, idempotency_key: key }): Moment => {
      const answer = kafka ? placeOf(kafka) : status === null ? "" : `answered ${status} after ${ms} ms`;
      const text = [operationOf(change?.op), attempts === 1 ? "" : attemptsOf(attempts), answer]
        .filter(Boolean)
        .join(", ");
      return { at, tone: outcomeTones[outcome], word: outcome, text, key };
    },
  );
  return [...now.toReversed(), ...past];
}

function placeOf({
  topic,
  partition,
  offset,
}: NonNullable<Explanation["deliveries"][number]["kafka"]>): string {
  return `topic ${topic}, partition ${partition}${offset === null ? "" : `, offset ${offset}`}`;
}

function operationOf(op: string | undefined): string {
  return operations[op ?? ""] ?? "";
}

function attemptsOf(attempts: number): string {
  if (attempts === 0) return "not tried yet";
  return attempts === 1 ? "1 attempt" : `${attempts} attempts`;
}
