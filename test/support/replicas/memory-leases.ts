// The state's lease store, in memory: the same promises, by the one clock of its server. Each method is one statement.

import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { InstallationView, ReplicaSelf, ReplicaView } from "../../../src/state/stores/lease-store.ts";

interface Row {
  readonly self: ReplicaSelf;
  seenAt: number;
  trouble: string | null;
}

interface Lease {
  term: number;
  holder: string | null;
  endsAt: number;
  active: boolean;
}

export class MemoryLeases {
  readonly replicas = new Map<string, Row>();
  readonly leases = new Map<string, Lease>();
  /** The log of terms. */
  readonly terms: { readonly connectorId: string; readonly term: number; readonly instance: string }[] = [];

  constructor(
    private readonly now: () => number,
    /** A lease has another holder, or none; `by` changed it. */
    private readonly changed: (by: string) => void = () => {},
  ) {}

  /** Its terms are above those that an earlier connector of this id had. */
  add(connectorId: string, active = true): void {
    const term = this.terms.findLast((each) => each.connectorId === connectorId)?.term ?? 0;
    this.leases.set(connectorId, { term, holder: null, endsAt: this.now(), active });
  }

  join(self: ReplicaSelf): void {
    const other = this.replicas.get(self.id);
    if (other && other.self.instance !== self.instance) {
      if (this.#isAlive(other)) {
        throw new MillraceError("invalid_setting", `Another replica has the id ${self.id}.`);
      }
      this.#free(other.self.instance);
    }
    this.replicas.set(self.id, { self, seenAt: this.now(), trouble: null });
  }

  renew(self: ReplicaSelf, trouble: string | null): Map<string, number> {
    const row = this.replicas.get(self.id);
    if (row && row.self.instance !== self.instance)
      throw new MillraceError("invalid_setting", `Another replica has the id ${self.id}.`);
    // A row that was forgotten is there again.
    this.replicas.set(self.id, { self, seenAt: this.now(), trouble });
    // Also those that have ended: nobody else has taken them.
    const held = [...this.leases].filter(([, { holder }]) => holder === self.instance);
    for (const [, lease] of held) lease.endsAt = this.now() + self.leaseMs;
    return new Map(held.map(([id, { term }]) => [id, term]));
  }

  view(self: ReplicaSelf): InstallationView {
    const all = [...this.leases];
    const ends = all
      .filter(([, lease]) => this.#isHeld(lease) && lease.holder !== self.instance)
      .map(([, { endsAt }]) => endsAt - this.now());
    return {
      replicas: [...this.replicas.values()].map((row) => this.#viewOf(row)),
      free: all
        .filter(([, lease]) => !this.#isHeld(lease))
        .map(([connectorId, { active, endsAt }]) => ({ connectorId, active, freeMs: this.now() - endsAt })),
      nextEndMs: ends.length === 0 ? null : Math.min(...ends),
    };
  }

  take(self: ReplicaSelf, connectorIds: readonly string[]): Map<string, number> {
    const taken = new Map<string, number>();
    if (!this.#rowOf(self)) return taken;
    for (const connectorId of connectorIds) {
      const lease = this.leases.get(connectorId);
      if (!lease || this.#isHeld(lease)) continue;
      lease.term += 1;
      lease.holder = self.instance;
      lease.endsAt = this.now() + self.leaseMs;
      taken.set(connectorId, lease.term);
      this.terms.push({ connectorId, term: lease.term, instance: self.instance });
    }
    if (taken.size > 0) this.changed(self.instance);
    return taken;
  }

  release(self: ReplicaSelf, terms: ReadonlyMap<string, number>): void {
    for (const [id, term] of terms) {
      const lease = this.leases.get(id);
      if (lease?.holder !== self.instance || lease.term !== term) continue;
      this.#end(lease);
      this.changed(self.instance);
    }
  }

  forgetLost(): ReplicaView[] {
    const lost = [...this.replicas.values()].filter(
      ({ self, seenAt }) => this.now() - seenAt > Math.max(60_000, 10 * self.leaseMs),
    );
    for (const { self } of lost) this.replicas.delete(self.id);
    return lost.map((row) => this.#viewOf(row));
  }

  leave(self: ReplicaSelf): void {
    if (!this.#rowOf(self)) return;
    this.replicas.delete(self.id);
    this.#free(self.instance);
    this.changed(self.instance);
  }

  /** Who holds the connector, by the server's clock. */
  holderOf(connectorId: string): { readonly instance: string; readonly term: number } | null {
    const lease = this.leases.get(connectorId);
    return lease && this.#isHeld(lease) ? { instance: lease.holder!, term: lease.term } : null;
  }

  /** Whether its row says so. */
  isAlive(self: ReplicaSelf): boolean {
    const row = this.#rowOf(self);
    return row !== null && this.#isAlive(row);
  }

  #rowOf({ id, instance }: ReplicaSelf): Row | null {
    const row = this.replicas.get(id);
    return row?.self.instance === instance ? row : null;
  }

  #isHeld({ holder, endsAt }: Lease): boolean {
    return holder !== null && endsAt > this.now();
  }

  #heldBy(instance: string): [string, Lease][] {
    return [...this.leases].filter(([, lease]) => lease.holder === instance && this.#isHeld(lease));
  }

  #free(instance: string): void {
    for (const [, lease] of this.leases) if (lease.holder === instance) this.#end(lease);
  }

  #end(lease: Lease): void {
    lease.endsAt = Math.min(lease.endsAt, this.now());
    lease.holder = null;
  }

  #isAlive({ self, seenAt }: Row): boolean {
    return seenAt + self.leaseMs > this.now();
  }

  #viewOf(row: Row): ReplicaView {
    const { id, instance, host, version, weight, startedAt } = row.self;
    const held = this.#heldBy(instance);
    return {
      id,
      instance,
      host,
      version,
      weight,
      startedAt,
      seenAt: new Date(row.seenAt),
      isAlive: this.#isAlive(row),
      held: held.length,
      active: held.filter(([, { active }]) => active).length,
      trouble: row.trouble,
    };
  }
}
