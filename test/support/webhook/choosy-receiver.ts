// A receiver of webhooks that refuses by key, by size or for a time, that loses connections and answers, and takes again what it took once.

import { random, type SentRow } from "../loads/audited-load.ts";
import type { ReceiverScript } from "./webhook-receiver.ts";

export type Refuses = (ids: readonly number[], body: string) => boolean;

export const ofIds =
  (bad: readonly number[]): Refuses =>
  (ids) =>
    ids.some((id) => bad.includes(id));
export const takesAll: Refuses = () => false;

/** What the receiver refuses until the next mishap. */
export function anyRefusal(): Refuses {
  switch (random(4)) {
    case 0: {
      const most = 100 + random(1_000);
      return (_, body) => body.length > most;
    }
    case 1: {
      const untilMs = performance.now() + random(150);
      return () => performance.now() < untilMs;
    }
    default:
      return ofIds([random(40), random(40), random(40)]);
  }
}

/** Takes again what it took once. */
export function choosy(refuses: Refuses): ReceiverScript {
  const taken = new Set<string>();
  return ({ headers, body }) => {
    const key = headers["idempotency-key"]!;
    const ids = [JSON.parse(body) as SentRow | readonly SentRow[]].flat().map(({ id }) => id);
    const isRefused = !taken.has(key) && refuses(ids, body);
    if (Math.random() < 0.05) return { kind: "reset" };
    if (isRefused) return { kind: "answer", status: 422, body: "no such id" };
    taken.add(key);
    // It has the rows, and nobody hears of it.
    return Math.random() < 0.05 ? 503 : { kind: "answer", status: 200, delayMs: random(10) };
  };
}
