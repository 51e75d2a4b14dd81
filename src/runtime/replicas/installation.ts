// Answers questions about the installation from what the keeper has read last. A view is looked through once, however often
// is asked.

import type { InstallationView, ReplicaView } from "../../state/stores/lease-store.ts";

/** Free leases are taken within a moment, by whoever takes any. */
const leftAloneMs = 2_000;

export class Installation {
  #indexed: InstallationView | null = null;
  #byInstance: ReadonlyMap<string, ReplicaView> = new Map();
  #leftAlone: ReadonlySet<string> = new Set();

  /** @param read what the keeper has read last; null: nothing yet */
  constructor(private readonly read: () => InstallationView | null) {}

  get view(): InstallationView | null {
    return this.read();
  }

  /** The id of a replica that lives, by its instance. */
  replicaOf(instance: string): string | null {
    this.#index();
    const replica = this.#byInstance.get(instance);
    return replica?.isAlive ? replica.id : null;
  }

  /** Whether there are replicas beside this one. Until that is known, there may be. */
  hasOthers(instance: string): boolean {
    return this.read()?.replicas.some((replica) => replica.instance !== instance) ?? true;
  }

  /** The connectors that are to run, and that no replica has taken for a while. */
  get leftAlone(): ReadonlySet<string> {
    this.#index();
    return this.#leftAlone;
  }

  isLeftAlone(connectorId: string): boolean {
    return this.leftAlone.has(connectorId);
  }

  #index(): void {
    const view = this.read();
    if (view === this.#indexed) return;
    this.#indexed = view;
    this.#byInstance = new Map(view?.replicas.map((replica) => [replica.instance, replica]));
    const alone = view?.free.filter(({ active, freeMs }) => active && freeMs >= leftAloneMs) ?? [];
    this.#leftAlone = new Set(alone.map(({ connectorId }) => connectorId));
  }
}
