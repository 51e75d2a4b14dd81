// What the keeper asks of the state, and what it is told. The state's lease store keeps this; terms and ends are by the
// clock of the state's server alone.

import type { InstallationView, ReplicaSelf, ReplicaView, Terms } from "../../state/stores/lease-store.ts";

export interface Leases {
  /** Throws `invalid_setting` while another live instance has this id. */
  join(self: ReplicaSelf): Promise<void>;
  /** Renews this replica and its leases, also those that have ended while nobody else took them. Returns those that it holds. */
  renew(self: ReplicaSelf, trouble: string | null): Promise<Terms>;
  view(self: ReplicaSelf): Promise<InstallationView>;
  /** Takes those that are free or have ended, each under its next term. */
  take(self: ReplicaSelf, connectorIds: readonly string[]): Promise<Terms>;
  /** Gives back, where this replica holds it under this term. */
  release(self: ReplicaSelf, terms: Terms): Promise<void>;
  /** Forgets replicas that were not seen for long; returns those that this call removed. */
  forgetLost(): Promise<readonly ReplicaView[]>;
  leave(self: ReplicaSelf): Promise<void>;
}
