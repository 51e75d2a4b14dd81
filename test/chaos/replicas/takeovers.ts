// How long it takes from the death of a holder until the next one's first new rows are at the sink.

import { pollUntil } from "../../../src/demo/poll-until.ts";
import type { ReplicaChaosStage } from "./replica-chaos-stage.ts";

const boundMs = 60_000;
const poll = { timeoutMs: boundMs, intervalMs: 20 };

export interface Held {
  readonly connectorId: string;
  readonly term: number;
}

/** What a replica held when it died. Resolves when all of it goes on elsewhere; with the milliseconds since `diedAt`, which is a wall clock's. */
export async function takeoverTimes(
  stage: ReplicaChaosStage,
  held: readonly Held[],
  diedAt: number,
): Promise<number[]> {
  return await Promise.all(
    held.map(async (each) => {
      const at = await pollUntil(
        `new rows of ${each.connectorId} behind the death of its holder`,
        () => firstRowsOf(stage, each),
        poll,
      );
      return at - diedAt;
    }),
  );
}

async function firstRowsOf(stage: ReplicaChaosStage, { connectorId, term }: Held): Promise<number | null> {
  if (connectorId !== "to-webhook") return await stage.record.firstMoveAbove(connectorId, term);
  const [next] = await stage.state.query<{ ms: string | null }>(
    `select extract(epoch from min(taken_at)) * 1000 as ms from millrace.lease_terms where connector_id = '${connectorId}' and term > ${term}`,
  );
  const { lastTakenAt } = stage.receiver;
  return next?.ms != null && lastTakenAt > Number(next.ms) ? lastTakenAt : null;
}
