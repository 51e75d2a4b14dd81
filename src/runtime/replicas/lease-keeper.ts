// Keeps this replica's leases: which connectors it may run. One loop, the look, renews, views, decides and acts. What is held, and the
// deadline beside the loop, is in held-leases.ts.

import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { InstallationView, LeaseStore, ReplicaView } from "../../state/stores/lease-store.ts";
import { HeldLeases, type HeldLeasesContext } from "./held-leases.ts";
import { answerMs, leasesToTake, leaseToGive, nextLookMs, renewalMs, retryMs } from "./lease-decisions.ts";
import { LeaseLog } from "./lease-log.ts";
import { LookLoop, pokeMs } from "./look-loop.ts";

/** What the keeper asks of the state. Terms and ends are by the clock of the state's server alone. */
export type Leases = Pick<
  LeaseStore,
  "join" | "renew" | "view" | "take" | "release" | "forgetLost" | "leave"
>;

/** Nothing that is called here may throw. `giveBack` may reject, which is logged. */
export interface LeaseKeeperContext extends Omit<HeldLeasesContext, "isAlone"> {
  readonly store: Leases;
  /** Asked to stop in order; resolves when nothing of its run goes on. */
  giveBack(connectorId: string): Promise<void>;
  /** Whether a connector that this replica holds is to run, as `setActive` told the state: only such count as load. */
  isActive(connectorId: string): boolean;
  /** A replica died long ago, and this one removed its row. */
  replicaLost(replica: ReplicaView): void;
  /** All replicas, as the state had them just now. Must not throw; left out: nobody wants to know. */
  saw?(replicas: readonly ReplicaView[]): void;
  /** What is wrong with this replica, for the others to show. */
  trouble(): string | null;
}

/** A run that is ending in order. */
interface Giving {
  readonly term: number;
  readonly done: Promise<void>;
}

export class LeaseKeeper implements AsyncDisposable {
  readonly #leases: HeldLeases;
  readonly #giving = new Map<string, Giving>();
  readonly #log: LeaseLog;
  readonly #loop: LookLoop;
  #view: InstallationView | null = null;
  #phase: "new" | "running" | "leaving" = "new";
  #isJoined = false;
  #isRenewalDue = true;
  /** No other replica lived when the state answered last. */
  #isAlone = false;
  #starting: Promise<void> | null = null;
  #left: Promise<void> | null = null;

  constructor(private readonly context: LeaseKeeperContext) {
    this.#log = new LeaseLog(context.log, context.self);
    this.#leases = new HeldLeases({ ...context, isAlone: () => this.#isAlone }, this.#log);
    this.#loop = new LookLoop(() => this.#look(), context.clock, context.schedule);
  }

  /** The installation as read last. */
  get view(): InstallationView | null {
    return this.#view;
  }

  /**
   * Joins. Another instance with this id may be the one that died before this one was started, so it waits for that one's lease to end;
   * throws `invalid_setting` if it lives longer. It waits for a state that does not answer.
   */
  start(): Promise<void> {
    this.#starting = this.#start();
    return this.#starting;
  }

  async #start(): Promise<void> {
    const { clock, self, schedule } = this.context;
    const giveUpAt = clock() + self.leaseMs + renewalMs(self.leaseMs);
    while (!this.#isJoined) {
      try {
        await this.#join();
      } catch (error) {
        const failure = toMillraceError(error);
        const isTaken = failure.code === "invalid_setting";
        const mayPass = isTaken ? clock() < giveUpAt : failure.code === "state_unavailable";
        if (!mayPass || this.#phase !== "new") throw failure;
        if (isTaken) this.#log.waits(failure);
        else this.#log.failed(failure);
        await new Promise<void>((resolve) => schedule(retryMs(self.leaseMs), resolve));
      }
    }
    if (this.#phase !== "new") return;
    this.#phase = "running";
    this.#loop.start();
  }

  /** Something may be free, or wants to run: looks soon. */
  poke(): void {
    if (this.#phase !== "new") this.#loop.poke();
  }

  /** Whether the connector's run may still write. */
  holds(connectorId: string, forMs = 0): boolean {
    return this.#leases.holds(connectorId, forMs);
  }

  /** Gives all leases back as their runs have ended, and leaves. A second call waits for the first. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  async #leave(): Promise<void> {
    // The loop goes on: it renews what still runs, and takes nothing.
    this.#phase = "leaving";
    for (const id of this.#leases.ids) void this.#giveBack(id);
    await Promise.all([...this.#giving.values()].map(({ done }) => done));
    await this.#loop.end();
    this.#leases.stopTimer();
    if (!this.#starting) return;
    // Its join may be on its way.
    await this.#starting.catch(() => {});
    try {
      await this.#answer(this.context.store.leave(this.context.self));
      this.#log.left();
    } catch (error) {
      this.#log.failed(toMillraceError(error, "state_unavailable"));
    }
  }

  /** Returns after how long to look again. */
  async #look(): Promise<number> {
    const { clock, self, store } = this.context;
    this.#leases.check();
    try {
      if (!this.#isJoined && this.#phase === "running") await this.#join();
      if (this.#isRenewalDue || clock() >= this.#nextRenewalAt) await this.#renew();
      const view = await this.#answer(store.view(self));
      this.#view = view;
      this.#isAlone = view.replicas.every(({ instance, isAlive }) => instance === self.instance || !isAlive);
      this.#log.answered();
      this.#log.saw(view.replicas, clock());
      this.context.saw?.(view.replicas);
      // The others have forgotten this replica, or one with the same id came while it was away.
      this.#isJoined = view.replicas.some(({ instance }) => instance === self.instance);
      if (!this.#isJoined) return pokeMs;
      if (this.#phase === "running") await this.#act(view);
      return nextLookMs(view, this.#nextRenewalAt - clock(), self.leaseMs);
    } catch (error) {
      const failure = toMillraceError(error, "state_unavailable");
      this.#log.failed(failure);
      if (failure.code === "invalid_setting") this.#isReplaced();
      // What was asked for may have been done all the same: the renewal tells.
      this.#isRenewalDue = true;
      return retryMs(self.leaseMs);
    }
  }

  /** Another instance has this replica's id. Once that one is dead, to join takes its place. */
  #isReplaced(): void {
    this.#isJoined = false;
    this.#isAlone = false;
    this.#leases.check();
  }

  get #nextRenewalAt(): number {
    return this.#leases.renewedAt + renewalMs(this.context.self.leaseMs);
  }

  async #join(): Promise<void> {
    await this.#answer(this.context.store.join(this.context.self));
    this.#isJoined = true;
    this.#isRenewalDue = true;
    this.#log.joined();
  }

  async #renew(): Promise<void> {
    const { clock, self, store } = this.context;
    const sentAt = clock();
    this.#isRenewalDue = false;
    const terms = await this.#answer(store.renew(self, this.context.trouble()));
    const stale = this.#leases.renewed(terms, sentAt, this.#phase === "running");
    if (stale.size > 0) await this.#answer(store.release(self, stale));
  }

  async #act(view: InstallationView): Promise<void> {
    const { clock, self, store } = this.context;
    const wanted = leasesToTake(view, self.instance, self.leaseMs);
    if (wanted.length > 0) {
      const terms = await this.#answer(store.take(self, wanted));
      this.#log.took(this.#leases.taken(terms, this.#phase === "running"), view.replicas, clock());
    }
    this.#balance(view);
    const lost = view.replicas.filter(({ isAlive }) => !isAlive);
    if (lost.length > 0) await this.#answer(this.#forgetLost(lost));
  }

  /** Who removes a replica tells of it, also if the answer comes too late for the look: no other replica finds it any more. */
  async #forgetLost(lost: readonly ReplicaView[]): Promise<void> {
    try {
      for (const replica of await this.context.store.forgetLost()) {
        this.#log.forgot(replica);
        this.context.replicaLost(replica);
      }
    } catch (error) {
      this.#log.mayHaveForgotten(lost);
      throw error;
    }
  }

  #balance(view: InstallationView): void {
    // What has ended here may have been seen by the view or not.
    if (this.#giving.size > 0 || !this.#leases.isSettled || this.#phase !== "running") return;
    const gift = leaseToGive(view, this.context.self.instance);
    if (!gift) return;
    const isOfKind = (id: string) => this.context.isActive(id) === (gift.kind === "active");
    // The one that has run for the shortest time here.
    const id = this.#leases.ids.findLast(isOfKind);
    if (id === undefined) return;
    this.#log.gave(id, gift.to);
    void this.#giveBack(id);
  }

  #giveBack(id: string): Promise<void> {
    const term = this.#leases.termOf(id);
    const under = this.#giving.get(id);
    if (term === undefined || under?.term === term) return under?.done ?? Promise.resolve();
    const giving = { term, done: this.#stopAndRelease(id, term) };
    this.#giving.set(id, giving);
    void giving.done.then(() => {
      if (this.#giving.get(id) === giving) this.#giving.delete(id);
      // So that the state's view is current before more is given.
      this.#isRenewalDue = true;
      this.#loop.poke();
    });
    return giving.done;
  }

  /** Does not throw. */
  async #stopAndRelease(id: string, term: number): Promise<void> {
    const failure = await this.context.giveBack(id).then(
      () => null,
      (error: unknown) => toMillraceError(error),
    );
    this.#leases.check();
    if (failure) this.#log.notGivenBack(id, failure);
    // Unless it was lost meanwhile, and perhaps gained anew.
    if (this.#leases.termOf(id) === term) this.#leases.lose([id]);
    try {
      await this.#answer(this.context.store.release(this.context.self, new Map([[id, term]])));
    } catch (error) {
      // The next renewal shows whether the state has heard of it.
      this.#log.failed(toMillraceError(error, "state_unavailable"));
    }
  }

  /** What the state answers, if it does so in time. The deadline has been checked when this returns or throws. */
  async #answer<T>(call: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const boundMs = answerMs(this.context.self.leaseMs);
    const cancel = this.context.schedule(boundMs, () => {
      late.reject(new MillraceError("state_unavailable", `No answer within ${boundMs / 1000} s.`));
    });
    try {
      return await Promise.race([call, late.promise]);
    } finally {
      cancel();
      this.#leases.check();
    }
  }
}
