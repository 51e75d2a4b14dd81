// Decides when replicas that are lost are told: at once, and at most once in 15 minutes, so that one that dies again and
// again does not fill a channel. Those that are lost meanwhile are told together. Pure: the time is an argument.

import { type Alert, type LostReplica, replicasAlert, windowMs } from "./alert.ts";

/** Replicas that wait to be told. */
const maxReplicas = 1_000;

export class ReplicaAlerts {
  #lost: LostReplica[] = [];
  #firstMs = 0;
  #sentMs: number | null = null;

  lost(replica: LostReplica, nowMs: number): void {
    if (this.#lost.length === 0) this.#firstMs = nowMs;
    if (this.#lost.length < maxReplicas) this.#lost.push(replica);
  }

  /** The alert that is due, which counts as told; null: none is. */
  due(nowMs: number): Alert | null {
    const sentMs = this.#sentMs;
    // A clock that was set back must not silence anything for longer.
    const mayTell = sentMs === null || nowMs < sentMs || nowMs - sentMs >= windowMs;
    if (this.#lost.length === 0 || !mayTell) return null;
    const alert = replicasAlert(this.#firstMs, this.#lost);
    this.#lost = [];
    this.#sentMs = nowMs;
    return alert;
  }
}
